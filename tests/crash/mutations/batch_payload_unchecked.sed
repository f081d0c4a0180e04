# fs/persistence/journal_format.cc
# the checksum of a batch covers its header only
s/checksum_of(header, payload, seed)/checksum_of(header, payload.first(0), seed)/
