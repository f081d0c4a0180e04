# fs/journal_writer.cc
# a journal block is named before it is durable
s/const Status committed = volume_.commit();/const Status committed;/
