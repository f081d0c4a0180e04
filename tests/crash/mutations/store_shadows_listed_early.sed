# server/store/store_shadows.cc
# the header says that there is a list of shadows before they are durable
# store
/std::as_bytes(std::span(records))));/{n;s/  TRY(sync());//}
