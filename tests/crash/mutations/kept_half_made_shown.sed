# server/store/kept_table_open.cc
# blocks that were being made are found
# kept
s/if (changes) {/if (false) {/
