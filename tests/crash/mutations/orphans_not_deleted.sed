# fs/operations/mount.cc
# a mount leaves orphans where they are
s/^  TRY(delete_orphans());//
