// Package sqlitestore keeps sessions.Store in one SQLite file: the store of a gateway that runs alone.
//
// Invariants:
//
//   - One process has the file open (a lock file says so), and in it one goroutine writes. What a caller reads is what was
//     committed: readers have connections of their own and see the last commit when their statement began.
//   - The writer takes every call that waits and commits them together (group commit). A call that fails by the contract
//     (conflict, fence, gap) has written nothing before it knows that, so the others in its transaction are not touched. When the
//     database refuses a transaction, its calls are tried again one by one, so that each gets the result it would have had alone.
//   - A call is answered after the commit that carries it is on the disk (synchronous=FULL).
//   - Journals are rows of packed events (package segment), one row or a few for each run. The seqs of a journal's rows neither
//     overlap nor change order; first, next, events and bytes of its header always agree with them, because both are written
//     in one transaction.
//   - The version that a commit gives to its records is the database's counter, which only grows. So versions of a key grow over
//     deletes and no tombstones are needed. For epochs of deleted journals, floors has one number for each principal.
//   - A file that is damaged, foreign or too new is refused before anything is written to it.
//
// There is one lock, in watch.Hub, held for moments; the writer holds it while it tells what a commit has changed, and
// nothing is waited for under it.
package sqlitestore
