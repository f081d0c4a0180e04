# fs/shared/coordinator_sought.cc
# a member goes back to the former coordinator when the next one does not answer at once
# shared
s/if (Clock::now() >= begins_until || is_over()) {/if (true) {/
