# server/service/lease.cc
# a holder is told of his lease before it is durable
# store
s/const Status stored = store_record(volume, true);/const Status stored = store_record(volume, false);/
