# server/service/lease.cc
# a holder is told of his lease before it is durable
# store
s/return store_record(volume, true);/return store_record(volume, false);/
