# fs/operations/file_change.cc
# an append goes where the end was before it waited for those before it
# explore --seeds 100 --sequence 'submit append a 3000; submit append a 10; wait'
/::lock_append(/,/^}/{
s/  uint64_t first = 0;/  uint64_t first = 0;\n  const uint64_t former = size_;/
s/  offset_ = size_;/  offset_ = size_ = former;/
}
