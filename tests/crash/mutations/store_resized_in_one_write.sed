# server/store/store_resize.cc
# the header's two sectors are changed without a sync between them
# store
/write_at(kHeaderSectorBytes/{
n
s/TRY(sync());//
}
