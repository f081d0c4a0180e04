# server/store/store_copies.cc
# an entry that is damaged in the first copy is lost
# store
s/^    } else if (is_whole(second, place)) {/    } else if (false) {/
