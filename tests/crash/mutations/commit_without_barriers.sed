# transport/volume/replay_log.cc
# a commit makes data, journal and superblock durable in any order
s/stage.front().after_previous = true;//
