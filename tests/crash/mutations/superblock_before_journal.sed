# fs/persistence/checkpoint_thread.cc
# the superblock names a checkpoint before the journal behind it is durable
# explore --sequence 'checkpoint; create c; write a 0 100; create d/z' --seeds 1000
s/Status status = parts_.journal.sync();/Status status;/;s/if (status.ok()) status = parts_.volume.commit();//
