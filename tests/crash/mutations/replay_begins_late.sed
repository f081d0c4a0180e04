# fs/persistence/checkpoint_thread.cc
# the superblock has the replay begin one transaction late
s/superblock.replay_from = position.next;/superblock.replay_from = next(position.next);/
