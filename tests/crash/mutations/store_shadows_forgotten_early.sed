# server/store/store_shadows.cc
# the header says that no shadows are left before they are durable in their slots
# store
/return write(shadow.slot, offset, block.subspan/{n;n;n;s/  TRY(sync());//}
