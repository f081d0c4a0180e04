/* SPDX-License-Identifier: Apache-2.0 */
/* Locks of a volume that several machines have mounted, for spin: two members that each add one to a counter under a lock
 * (they read it, and write one more), whoever coordinates, and may die or hand the volume over at any moment, and a journal,
 * which knows the counter, the members, and what each has done last. docs/shared.md; tests/models/check_shared runs this,
 * and takes the rules out one by one.
 *
 * No update is lost: who writes finds what he read. That one coordinator is followed by one other is in shared.pml.
 *
 *   NOCLAIM      members tell the next coordinator which locks they have
 *   NOGRACE      ... before anybody gets one, or all who have not come by then are expelled
 *   NOEXPEL      who has not come is no member any more
 *   NOCALLWAIT   who is expelled has no call under way when another gets his lock
 *   NOROW        ... and is expelled in the journal, too: the next coordinator does not know him
 *   NOSTAY       a coordinator that ends lets go of nobody's lock: members come to the next one with them
 *   NOREPLY      the journal says which update was done, so one that is sent again is not done again */
#ifndef TURNS
#define TURNS 2       /* of each member */
#endif
#ifndef ENDS
#define ENDS 2        /* of coordinators */
#endif
#ifndef FLIPS
#define FLIPS 2
#endif
#define NOBODY 2
mtype = { IDLE, LOCKED, READ, SENT, EXPELLED };

/* The journal. */
byte b_value, b_done[2]; bit b_member[2];
/* The coordinator, the `life`th: who has the lock, who is a member, who of those has come; calls under way. */
byte life = 1, owner = NOBODY; bit known[2], came[2], in_grace, ends;
byte writes[2], number[2];
/* The members: which coordinator they have come to. */
mtype does[2];
byte at[2], has_read[2], turn[2]; bit down[2];
byte flips, deaths;

#define HEARS(m) (!down[m] && at[m] == life && known[m] && !ends)
#define SERVES (!in_grace && !ends)

inline begin_next() {
  life++; deaths++; owner = NOBODY; ends = 0; in_grace = 1;
  known[0] = b_member[0]; known[1] = b_member[1]; came[0] = 0; came[1] = 0;
  writes[0] = 0; writes[1] = 0
}

proctype Coordinator() {
  byte m;
end:
  do
  /* it dies: what it knew is gone, and what was under way was done or not */
  :: atomic { deaths < ENDS -> begin_next() }
  /* it hands over: each member's calls end, then it lets go */
  :: atomic { deaths < ENDS && SERVES -> ends = 1; writes[0] = 0; writes[1] = 0 };
#ifdef NOSTAY
     owner = NOBODY; ends = 0;       /* of one, while another is served yet */
     ends = 1;
#endif
     atomic { begin_next() }
  /* an update is made, and answered behind the journal */
  :: atomic { writes[0] != 0 -> m = 0; goto write }
  :: atomic { writes[1] != 0 -> m = 1;
write:
       assert(b_done[m] >= number[m] || writes[m] == b_value + 1);
       b_value = writes[m]; b_done[m] = number[m]; writes[m] = 0 }
  /* grace is over: all have come, or have not */
  :: atomic { in_grace && (came[0] || !known[0]) && (came[1] || !known[1]) -> in_grace = 0 }
#ifdef NOEXPEL
  :: atomic { in_grace -> in_grace = 0 }
#else
  :: atomic { in_grace && known[0] && !came[0] -> m = 0; goto expel }
  :: atomic { in_grace && known[1] && !came[1] -> m = 1; goto expel }
#endif
  /* somebody is not heard of */
  :: atomic { SERVES && down[0] && known[0] -> m = 0; goto expel }
  :: atomic { SERVES && down[1] && known[1] -> m = 1;
expel:
       known[m] = 0 };
#ifndef NOCALLWAIT
     /* ... its call is seen to its end */
     atomic { if
       :: writes[m] != 0 -> assert(b_done[m] >= number[m] || writes[m] == b_value + 1);
            b_value = writes[m]; b_done[m] = number[m]; writes[m] = 0
       :: else
       fi };
#endif
#ifndef NOROW
     atomic { if :: deaths < ENDS -> begin_next(); goto end :: b_member[m] = 0 fi };
#endif
     atomic { if :: owner == m -> owner = NOBODY :: else fi };
#ifdef NOROW
     atomic { if :: deaths < ENDS -> begin_next(); goto end :: b_member[m] = 0 fi }
#endif
  od
}

proctype Member(byte m) {
end:
  do
  :: atomic { does[m] == EXPELLED -> break }
  /* it finds who coordinates now, and claims; or is told that it is expelled */
  :: atomic { !down[m] && at[m] != life && !ends && known[m] -> at[m] = life; came[m] = 1;
#ifndef NOCLAIM
       if :: does[m] != IDLE && owner == NOBODY -> owner = m :: else fi;
#endif
     }
  :: atomic { !down[m] && !ends && !known[m] -> does[m] = EXPELLED }
#ifdef NOGRACE
  :: atomic { HEARS(m) && does[m] == IDLE && turn[m] < TURNS && owner == NOBODY -> owner = m; does[m] = LOCKED; turn[m]++ }
#else
  :: atomic { HEARS(m) && SERVES && does[m] == IDLE && turn[m] < TURNS && owner == NOBODY -> owner = m; does[m] = LOCKED; turn[m]++ }
#endif
  :: atomic { HEARS(m) && SERVES && does[m] == LOCKED -> has_read[m] = b_value; does[m] = READ }
  :: atomic { HEARS(m) && SERVES && does[m] == READ -> writes[m] = has_read[m] + 1; number[m] = turn[m]; does[m] = SENT }
  /* the call that went with its coordinator is sent again */
#ifdef NOREPLY
  :: atomic { HEARS(m) && SERVES && does[m] == SENT && writes[m] == 0 && at[m] > 1 && b_done[m] != 255 ->
       b_done[m] = turn[m] - 1; writes[m] = has_read[m] + 1; }
#else
  :: atomic { HEARS(m) && SERVES && does[m] == SENT && writes[m] == 0 && b_done[m] < turn[m] -> writes[m] = has_read[m] + 1; number[m] = turn[m] }
#endif
  :: atomic { HEARS(m) && SERVES && does[m] == SENT && writes[m] == 0 && b_done[m] == turn[m] ->
       does[m] = IDLE; if :: owner == m -> owner = NOBODY :: else fi }
  od
}

proctype World() {
end:
  do
  :: atomic { flips < FLIPS -> flips++; if :: down[0] = !down[0] :: down[1] = !down[1] fi }
  od
}

init { atomic {
  b_member[0] = 1; b_member[1] = 1; known[0] = 1; known[1] = 1; came[0] = 1; came[1] = 1;
  does[0] = IDLE; does[1] = IDLE; at[0] = 1; at[1] = 1;
  run Coordinator(); run Member(0); run Member(1); run World()
} }
