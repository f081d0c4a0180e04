# server/service/volume_admin.cc
# a volume's size is told to be another before that is durable
# store
/^Status VolumeTable::resize/,/^}/s/store_record(volume, true)/store_record(volume, false)/
