# server/service/volume_admin.cc
# a volume is told to be made before that is durable
# store
/^Status VolumeTable::create/,/^}/s/store_record(volume, true)/store_record(volume, false)/
