# fs/operations/mount.cc
# what a torn write of the superblock has left is not written over before anything is freed
s/TRY(slots_.restore_copy(head_.superblock));//
