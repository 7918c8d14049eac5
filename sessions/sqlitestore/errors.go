package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/segment"
)

// Errors of Open. Each says which file it is about; none of them changes the file.
var (
	// ErrDamaged: the file is not a database, or a damaged one. Reads of a damaged part give it too.
	ErrDamaged = errors.New("the database is damaged")
	// ErrForeign: the file is a database of another program.
	ErrForeign = errors.New("the database is not one of acpgate")
	// ErrNewer: the file was written by a newer version.
	ErrNewer = errors.New("the database was written by a newer version of acpgate")
	// ErrInUse: another process has the database open.
	ErrInUse = errors.New("the database is in use by another process")
)

// outside turns an error of the database into one of the contract. Errors of the contract and of a context stay.
func (s *Store) outside(err error) error {
	switch {
	case err == nil, contractual(err), errors.Is(err, context.Canceled):
		return err
	case damage(err):
		return fmt.Errorf("%w: %s: %w: %w", sessions.ErrUnavailable, s.cfg.Path, ErrDamaged, err)
	case code(err) == lib.SQLITE_FULL:
		return fmt.Errorf("%w: %s: no space is left for the database: %w", sessions.ErrUnavailable, s.cfg.Path, err)
	}
	return fmt.Errorf("%w: %s: %w", sessions.ErrUnavailable, s.cfg.Path, err)
}

// contractual reports whether err says something about the call, and not about the database.
func contractual(err error) bool {
	for _, kind := range []error{
		sessions.ErrConflict, sessions.ErrFenced, sessions.ErrGap, sessions.ErrNoJournal, sessions.ErrInvalid, sessions.ErrUnavailable,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// code returns the primary result code of a SQLite error, 0 when err is none.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}

func damage(err error) bool {
	c := code(err)
	return c == lib.SQLITE_CORRUPT || c == lib.SQLITE_NOTADB || errors.Is(err, segment.ErrDamaged)
}
