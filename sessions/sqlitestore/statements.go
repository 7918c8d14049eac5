package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
)

// statements are the writer's, each prepared once.
type statements struct {
	all []*sql.Stmt

	begin, end, rollback                              *sql.Stmt
	setVersion, setChecked, setProbe                  *sql.Stmt
	getVersion, setRecord, deleteRecord, purgeRecords *sql.Stmt
	setMember, deleteMember                           *sql.Stmt

	getJournal, putJournal, extendJournal, dropJournal              *sql.Stmt
	closeJournal, shortenJournal, getFloor, raiseFloor              *sql.Stmt
	addSegment, straddling, stepUpto, headTotals                    *sql.Stmt
	dropHead, firstSegment, addGarbage, purgeSegments, emptyGarbage *sql.Stmt
}

func (st *statements) prepare(ctx context.Context, conn *sql.Conn) error {
	const expired = "expires IS NOT NULL AND expires <= ?"
	var errs []error
	for stmt, text := range map[**sql.Stmt]string{
		&st.begin:    "BEGIN IMMEDIATE",
		&st.end:      "COMMIT",
		&st.rollback: "ROLLBACK",

		&st.setVersion: "UPDATE meta SET version = ?",
		&st.setChecked: "UPDATE meta SET checked = ?",
		&st.setProbe:   "UPDATE meta SET probe = ?",

		&st.getVersion: "SELECT version FROM records WHERE principal = ? AND key = ? AND NOT (" + expired + ")",
		&st.setRecord: `INSERT INTO records (principal, key, version, expires, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET version = excluded.version, expires = excluded.expires, value = excluded.value`,
		&st.deleteRecord: "DELETE FROM records WHERE principal = ? AND key = ?",
		&st.purgeRecords: "DELETE FROM records WHERE rowid IN (SELECT rowid FROM records WHERE " + expired + " LIMIT ?)",

		&st.setMember: `INSERT INTO members (principal, list, member, score, value) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT DO UPDATE SET score = excluded.score, value = excluded.value`,
		&st.deleteMember: "DELETE FROM members WHERE principal = ? AND list = ? AND member = ?",

		&st.getJournal: "SELECT id, epoch, fence, first, next, events, bytes, clean FROM journals WHERE principal = ? AND name = ?",
		&st.putJournal: `INSERT INTO journals (principal, name, epoch, fence, first, next, events, bytes, clean) VALUES (?, ?, ?, ?, ?, ?, 0, 0, 0)
			ON CONFLICT DO UPDATE SET epoch = excluded.epoch, fence = excluded.fence, clean = 0`,
		&st.extendJournal: `UPDATE journals SET next = next + ?1, events = events + ?1, bytes = bytes + ?2, clean = 0
			WHERE principal = ?3 AND name = ?4 AND fence <= ?5 AND next = ?6 RETURNING id`,
		&st.closeJournal:   "UPDATE journals SET clean = 1 WHERE id = ?",
		&st.shortenJournal: "UPDATE journals SET first = ?, events = ?, bytes = ? WHERE id = ?",
		&st.dropJournal:    "DELETE FROM journals WHERE id = ?",
		&st.getFloor:       "SELECT coalesce(max(epoch), 0) FROM floors WHERE principal = ?",
		&st.raiseFloor:     "INSERT INTO floors (principal, epoch) VALUES (?, ?) ON CONFLICT DO UPDATE SET epoch = max(epoch, excluded.epoch)",

		&st.addSegment:   "INSERT INTO segments (journal, first, last, events, bytes, data) VALUES (?, ?, ?, ?, ?, ?)",
		&st.straddling:   "SELECT data FROM segments WHERE journal = ?1 AND first <= ?2 AND last > ?2",
		&st.stepUpto:     "SELECT last FROM segments WHERE journal = ? AND first <= ? ORDER BY first LIMIT 1 OFFSET ?",
		&st.headTotals:   "SELECT coalesce(sum(events), 0), coalesce(sum(bytes), 0) FROM segments WHERE journal = ? AND first <= ?",
		&st.dropHead:     "DELETE FROM segments WHERE journal = ? AND first <= ?",
		&st.firstSegment: "SELECT min(first) FROM segments WHERE journal = ?",

		&st.addGarbage: "INSERT INTO garbage (journal) VALUES (?)",
		&st.purgeSegments: `DELETE FROM segments WHERE rowid IN
			(SELECT s.rowid FROM garbage g JOIN segments s ON s.journal = g.journal LIMIT ?)`,
		&st.emptyGarbage: "DELETE FROM garbage",
	} {
		prepared, err := conn.PrepareContext(ctx, text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		*stmt = prepared
		st.all = append(st.all, prepared)
	}
	return errors.Join(errs...)
}

// close closes the statements. database/sql does not do it for those of a single connection, and while there are any,
// SQLite keeps the connection open and does not tidy up its log.
func (st *statements) close() error {
	var errs []error
	for _, stmt := range st.all {
		errs = append(errs, stmt.Close())
	}
	return errors.Join(errs...)
}
