/* SPDX-License-Identifier: Apache-2.0 */
/* Direct writes of a shared volume, for spin: a member that writes to the brick itself, in units that the coordinator has
 * lent to it, and then has them made the file's. docs/shared.md; tests/models/check_shared runs this, and takes the rules
 * out one by one.
 *
 * One file, in one unit at a time; a durable brick with a memory and a store; a coordinator, who writes, too, and commits;
 * a member. The brick restarts, with what is in its store; the member is given up, and lives on, so that a write of it is
 * late; coordinator and brick die together, and another coordinator begins with the store.
 *
 * What must hold: whoever reads finds in the file's unit what was put there last; behind the death of all, what was there
 * when the last commit began. Bytes may be lost only where the member is gone that had them.
 *
 *   NOEXPEL      units of a member that is gone are used again when the brick has ended its session
 *   NOBOOT       what was written to another life of the brick is not taken
 *   NOKEEP       a member keeps what it has written until a commit has covered it
 *   NOFETCH      a brick that has restarted gets it from the member
 *   NOREPLAY     ... before anybody reads
 *   EARLYFREE    units that a change has freed are used again when a commit has covered that
 *   JOURNALFIRST a commit stores bytes before the journal that shows them
 *   NOFENCE      who follows a coordinator ends the sessions of members before he uses free units */
#ifndef WRITES
#define WRITES 4
#endif
#ifndef RESTARTS
#define RESTARTS 2
#endif
#define UNITS 3
#define NONE 3
#ifdef JOURNALFIRST
#define FIRST_STORED (stored_map == commit_map)
#define STORE_FIRST stored_map = commit_map; stored_value = commit_value
#else
#define FIRST_STORED (store[commit_map] == mem[commit_map])
#define STORE_FIRST store[commit_map] = mem[commit_map]
#endif
mtype = { FREED_NOW, IS_FREE, IS_LENT, IS_MAPPED };

/* The brick. */
byte mem[UNITS], store[UNITS], stored_map, stored_value, boot = 1;
bit session;                     /* the member's */
/* The coordinator: the file's unit, what is in it, and whose bytes they are that no commit has covered. */
mtype state[UNITS];
byte map, value, seen_boot = 1, lent = NONE;
bit by_member, uncommitted, knows_member;
/* A commit under way. */
bit commits; byte commit_map, commit_value; bit commit_freed[UNITS];
/* The member: the unit it has, what it writes there, and what it keeps. */
byte has = NONE, writes, has_boot, kept, kept_unit = NONE;
bit in_flight, landed, asks;
byte number, restarts, deaths;

inline free_old() {
  if
  :: state[map] == IS_MAPPED ->
#ifdef EARLYFREE
     state[map] = IS_FREE
#else
     state[map] = FREED_NOW
#endif
  :: else
  fi
}

active proctype Coordinator() {
  byte u;
  state[0] = IS_MAPPED; state[1] = IS_FREE; state[2] = IS_FREE;
  do
  /* it writes itself */
  :: atomic { number < WRITES && seen_boot == boot ->
       if
       :: state[0] == IS_FREE -> u = 0
       :: state[1] == IS_FREE -> u = 1
       :: state[2] == IS_FREE -> u = 2
       :: else -> goto next
       fi;
       number++; mem[u] = number; free_old(); state[u] = IS_MAPPED; map = u; value = number; by_member = 0; uncommitted = 1 }
  /* it lends */
  :: atomic { lent == NONE && has == NONE && !in_flight && number < WRITES && seen_boot == boot ->
       if
       :: state[1] == IS_FREE -> lent = 1
       :: state[2] == IS_FREE -> lent = 2
       :: state[0] == IS_FREE -> lent = 0
       :: else -> goto next
       fi;
       state[lent] = IS_LENT; session = 1; knows_member = 1; has = lent; has_boot = boot; number++; writes = number;
       in_flight = 1; landed = 0; asks = 0 }
  /* it makes the unit the file's: nothing of the brick is waited for, but the journal */
  :: atomic { asks && knows_member && lent != NONE ->
       asks = 0;
       if
#ifdef NOBOOT
       :: seen_boot == boot ->
#else
       :: seen_boot == boot && has_boot == boot ->
#endif
          free_old(); state[lent] = IS_MAPPED; map = lent; value = writes; by_member = 1; uncommitted = 1; kept = writes; kept_unit = lent;
#ifdef NOKEEP
          kept_unit = NONE
#endif
       :: else -> state[lent] = IS_FREE                /* refused */
       fi;
       lent = NONE; has = NONE }
  /* it gives the member up, which may live on */
  :: atomic { knows_member && lent != NONE ->
       knows_member = 0;
#ifndef NOEXPEL
       session = 0;
#endif
       state[lent] = IS_FREE; lent = NONE }
  /* the brick has restarted: what no commit has covered is written there again */
  :: atomic { seen_boot != boot ->
       if
       :: !uncommitted -> skip
       :: uncommitted && !by_member -> mem[map] = value
#ifdef NOFETCH
       :: uncommitted && by_member -> skip
#else
       :: uncommitted && by_member && kept_unit == map -> mem[map] = kept
       :: uncommitted && by_member && kept_unit != map -> skip
#endif
       fi;
       seen_boot = boot; commits = 0 }
  /* commit: what is now, in two steps */
  :: atomic { uncommitted && !commits && seen_boot == boot ->
       commits = 1; commit_map = map; commit_value = value;
       commit_freed[0] = state[0] == FREED_NOW; commit_freed[1] = state[1] == FREED_NOW; commit_freed[2] = state[2] == FREED_NOW }
  :: atomic { commits && seen_boot == boot && !FIRST_STORED -> STORE_FIRST }
  :: atomic { commits && seen_boot == boot && FIRST_STORED ->
       store[commit_map] = mem[commit_map]; stored_map = commit_map; stored_value = commit_value; commits = 0;
       if :: map == commit_map && value == commit_value -> uncommitted = 0; kept_unit = NONE :: else fi;
       for (u : 0 .. 2) { if :: commit_freed[u] && state[u] == FREED_NOW -> state[u] = IS_FREE :: else fi } }
  /* somebody reads */
#ifdef NOREPLAY
  :: assert(mem[map] == value)
#else
  :: atomic { seen_boot == boot -> assert(mem[map] == value) }
#endif
  :: atomic { number == WRITES && !uncommitted && !in_flight && seen_boot == boot && restarts == RESTARTS -> break }
next: skip
  od
}

/* The member's write lands whenever it does, as long as its session lasts, which ends with the life of the brick. */
active proctype Member() {
end:
  do
  :: atomic { in_flight && session && has_boot == boot -> mem[has] = writes; in_flight = 0; landed = 1; asks = 1 }
  :: atomic { in_flight && (!session || has_boot != boot) ->      /* it is told so; and tries nothing more */
       in_flight = 0;
       if :: lent == has && knows_member -> state[lent] = IS_FREE; lent = NONE :: else fi;
       has = NONE }
  :: atomic { landed && !knows_member && has != NONE && lent == NONE -> has = NONE; landed = 0; asks = 0 }
  od
}

active proctype World() {
  byte u;
end:
  do
  :: atomic { restarts < RESTARTS -> restarts++; boot++; mem[0] = store[0]; mem[1] = store[1]; mem[2] = store[2]; session = 0 }
  /* coordinator and brick die; another one begins with what is stored */
  :: atomic { deaths == 0 -> deaths++; boot++; mem[0] = store[0]; mem[1] = store[1]; mem[2] = store[2];
       map = stored_map; value = stored_value; uncommitted = 0; commits = 0; by_member = 0; kept_unit = NONE;
       for (u : 0 .. 2) { if :: u == map -> state[u] = IS_MAPPED :: else -> state[u] = IS_FREE fi };
       seen_boot = boot; lent = NONE; knows_member = 0; session = 0 }
  /* the coordinator alone dies, when all that it has is in the store */
  :: atomic { deaths == 0 && !uncommitted && !commits && seen_boot == boot -> deaths++;
       for (u : 0 .. 2) { if :: u == map -> state[u] = IS_MAPPED :: else -> state[u] = IS_FREE fi };
       lent = NONE; knows_member = 0;
#ifndef NOFENCE
       session = 0
#endif
     }
  od
}
