package sqlitestore

import (
	"context"
	"database/sql"
	"embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrations returns the steps from an empty database to the newest schema; the n-th leads to user_version n+1. Steps are
// only ever added.
func migrations() ([]string, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql") // in lexical order
	if err != nil {
		return nil, err
	}
	var steps []string
	for _, name := range names {
		text, err := fs.ReadFile(migrationFiles, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(text))
	}
	return steps, nil
}

const (
	applicationID = 0x61637067 // "acpg", in the header of the file

	// A checkpoint copies what the write-ahead log holds into the database, in the writer, every 4 MiB; after a peak
	// the log is cut to 64 MiB.
	checkpointPages = 1000
	logSizeLimit    = 64 << 20
	writerCacheKiB  = 16 << 10
	busyTimeout     = "5000" // ms; nobody else should have the file open, but somebody may look into it by hand
)

// prepare leaves a database at cfg.Path that may be opened for writing: it makes one if there is none, and looks at one
// that is there. A damaged, foreign or newer one is left as it is.
func prepare(ctx context.Context, cfg Config, steps []string) error {
	switch _, err := os.Lstat(cfg.Path); {
	case errors.Is(err, fs.ErrNotExist):
		return create(ctx, cfg.Path, steps)
	case err != nil:
		return err
	}
	if err := checkHeader(cfg.Path); err != nil {
		return err
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Chmod(cfg.Path+suffix, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return inspect(ctx, cfg.Path, len(steps))
}

// create makes an empty database under another name and gives it its own when it is whole. So a file that is cut to
// nothing is never one that a crash left behind while it was made.
func create(ctx context.Context, path string, steps []string) (err error) {
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		return fmt.Errorf("%w: %s is missing, but its log %s-wal is there; move both away, or put the file back", ErrDamaged, path, path)
	}
	draft := path + ".new"
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(draft, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	db, err := sql.Open("sqlite", dsn(draft, nil))
	if err != nil {
		return err
	}
	err = func() error {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
			return err
		}
		_, err = migrate(ctx, conn, steps)
		return err
	}()
	if err = errors.Join(err, db.Close()); err != nil {
		return fmt.Errorf("making %s: %w", path, err)
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := os.Rename(draft, path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// checkHeader looks at the first bytes and the length of the file, without SQLite: that costs nothing and catches the
// ordinary accidents.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrDamaged, path)
	}
	var h [100]byte
	if _, err := io.ReadFull(f, h[:]); err != nil {
		return fmt.Errorf("%w: %s has only %d bytes", ErrDamaged, path, info.Size())
	}
	if string(h[:16]) != "SQLite format 3\x00" {
		return fmt.Errorf("%w: %s is not a database", ErrDamaged, path)
	}
	if id := binary.BigEndian.Uint32(h[68:]); id != applicationID {
		return fmt.Errorf("%w: %s has application id %#x", ErrForeign, path, id)
	}
	// While a log waits to be copied in, the file may well be shorter than its header says.
	if wal, err := os.Stat(path + "-wal"); err == nil && wal.Size() > 0 {
		return nil
	}
	pageSize := int64(binary.BigEndian.Uint16(h[16:]))
	if pageSize == 1 {
		pageSize = 64 << 10
	}
	if want := pageSize * int64(binary.BigEndian.Uint32(h[28:])); info.Size() < want {
		return fmt.Errorf("%w: %s has %d bytes of %d", ErrDamaged, path, info.Size(), want)
	}
	return nil
}

// inspect looks into the database through a connection that cannot write: its schema version, and every page of every
// table but segments, which has nearly all of the bytes and whose blobs have checksums of their own.
func inspect(ctx context.Context, path string, newest int) (err error) {
	db, err := sql.Open("sqlite", dsn(path, url.Values{"mode": {"ro"}}))
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, db.Close()); damage(err) {
			err = fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
		}
	}()
	db.SetMaxOpenConns(1)
	var schema int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&schema); err != nil {
		return err
	}
	if schema > newest {
		return fmt.Errorf("%w: %s has schema %d, this version knows up to %d; start the newer version again", ErrNewer, path, schema, newest)
	}
	tables, err := column(ctx, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT IN ('segments') AND name NOT LIKE 'sqlite%'")
	if err != nil {
		return err
	}
	for _, table := range tables {
		lines, err := column(ctx, db, fmt.Sprintf("PRAGMA quick_check('%s')", table))
		if err != nil {
			return err
		}
		if report := strings.Join(lines, "; "); report != "ok" {
			return fmt.Errorf("%w: %s: table %s: %s", ErrDamaged, path, table, report)
		}
	}
	return nil
}

func column(ctx context.Context, db *sql.DB, query string) (out []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, rows.Err()
}

// migrate takes the database through the steps that it has not seen, each in a transaction, and returns where it came from.
func migrate(ctx context.Context, conn *sql.Conn, steps []string) (from int, err error) {
	if err := conn.QueryRowContext(ctx, "PRAGMA user_version").Scan(&from); err != nil {
		return 0, err
	}
	for n := from; n < len(steps); n++ {
		script := fmt.Sprintf("BEGIN IMMEDIATE;\n%s\nPRAGMA user_version = %d;\nCOMMIT;", steps[n], n+1)
		if _, err := conn.ExecContext(ctx, script); err != nil {
			_, rollbackErr := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
			return from, errors.Join(fmt.Errorf("migration %d: %w", n+1, err), rollbackErr)
		}
	}
	return from, nil
}

// dsn names a database file for the driver.
func dsn(path string, params url.Values) string {
	all := url.Values{"_busy_timeout": {busyTimeout}, "_defensive": {"1"}, "_dqs": {"0"}, "_error_rc": {"1"}, "_pragma": {"cell_size_check(ON)"}}
	for key, values := range params {
		all[key] = append(all[key], values...)
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: all.Encode()}
	return u.String()
}
