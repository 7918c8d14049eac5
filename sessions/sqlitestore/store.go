package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/internal/watch"
)

var _ sessions.Store = (*Store)(nil)

// Store is a sessions.Store in a SQLite file.
type Store struct {
	cfg      Config
	lock     *os.File
	writerDB *sql.DB
	conn     *sql.Conn // the only one of writerDB
	writer   *writer
	readerDB *sql.DB
	reads    readStatements
	watchers watch.Hub

	ops     chan *op
	closing chan struct{}
	wg      sync.WaitGroup

	// failed is set when the database refused a write, until Check has seen it take one. lastWrite is when it last took
	// one, Unix nanoseconds.
	failed    atomic.Bool
	lastWrite atomic.Int64

	transactions, calls atomic.Int64

	closeOnce sync.Once
	closeErr  error
}

// Open opens the database, making it if there is none, and takes it through the migrations that it has not seen. Errors:
// ErrDamaged, ErrForeign, ErrNewer, ErrInUse, each naming the file, which is then left as it was; those of the file system.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	steps, err := migrations()
	if err != nil {
		return nil, err
	}
	return openWith(ctx, cfg, steps)
}

func openWith(ctx context.Context, cfg Config, steps []string) (_ *Store, err error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Store{cfg: cfg, ops: make(chan *op), closing: make(chan struct{})}
	if s.lock, err = lock(cfg.Path + ".lock"); err != nil {
		return nil, err
	}
	if err := s.open(ctx, steps); err != nil {
		return nil, errors.Join(err, s.release())
	}
	s.wg.Go(s.writer.run)
	return s, nil
}

func (s *Store) open(ctx context.Context, steps []string) error {
	if err := prepare(ctx, s.cfg, steps); err != nil {
		return err
	}
	var err error
	s.writerDB, err = sql.Open("sqlite", dsn(s.cfg.Path, url.Values{
		"_journal_mode": {"WAL"},
		"_synchronous":  {"FULL"},
		"_pragma": {
			fmt.Sprintf("cache_size(-%d)", writerCacheKiB), fmt.Sprintf("wal_autocheckpoint(%d)", checkpointPages),
			fmt.Sprintf("journal_size_limit(%d)", logSizeLimit), fmt.Sprintf("max_page_count(%d)", s.maxPages()),
		},
	}))
	if err != nil {
		return err
	}
	s.writerDB.SetMaxOpenConns(1)
	if s.conn, err = s.writerDB.Conn(ctx); err != nil {
		return fmt.Errorf("opening %s: %w", s.cfg.Path, err)
	}
	from, err := migrate(ctx, s.conn, steps)
	if err != nil {
		return fmt.Errorf("%s: %w", s.cfg.Path, err)
	}
	if from != len(steps) {
		s.cfg.Logger.InfoContext(ctx, "database migrated", "path", s.cfg.Path, "from", from, "to", len(steps))
	}
	if s.writer, err = newWriter(ctx, s); err != nil {
		return fmt.Errorf("%s: %w", s.cfg.Path, err)
	}
	if s.readerDB, err = sql.Open("sqlite", dsn(s.cfg.Path, url.Values{"mode": {"ro"}})); err != nil {
		return err
	}
	s.readerDB.SetMaxOpenConns(s.cfg.Readers)
	s.readerDB.SetMaxIdleConns(s.cfg.Readers)
	if err := s.reads.prepare(ctx, s.readerDB); err != nil {
		return fmt.Errorf("%s: %w", s.cfg.Path, err)
	}
	return nil
}

const pageSize = 4096 // SQLite's default

func (s *Store) maxPages() int64 {
	if s.cfg.MaxBytes == 0 {
		return 1<<32 - 2 // SQLite's own bound
	}
	return s.cfg.MaxBytes / pageSize
}

// Watch implements sessions.Store.
func (s *Store) Watch(ctx context.Context, principal string) (<-chan sessions.Change, error) {
	if err := sessions.CheckNames(principal); err != nil {
		return nil, err
	}
	c := s.watchers.Watch(ctx, principal, nil)
	if c == nil {
		return nil, s.outside(errClosed)
	}
	return c, nil
}

const (
	checkFresh = 5 * time.Second // a write that went well in this time is answer enough
	probeBytes = 256 << 10       // what Check writes, and removes, to find out whether a disk that was full has room again
)

// Check implements sessions.Store. It writes a few bytes unless something was written just now; after a write has failed it
// writes as many as one would miss on a disk that is nearly full.
func (s *Store) Check(ctx context.Context) error {
	if s.failed.Load() {
		if err := s.write(ctx, 0, func(t *tx) error { return t.exec(t.w.setProbe, make([]byte, probeBytes)) }); err != nil {
			return err
		}
		s.failed.Store(false)
		return s.write(ctx, 0, func(t *tx) error { return t.exec(t.w.setProbe, nil) })
	}
	if time.Since(time.Unix(0, s.lastWrite.Load())) < checkFresh && !s.closed() {
		return ctx.Err()
	}
	return s.write(ctx, 0, func(t *tx) error { return t.exec(t.w.setChecked, s.cfg.Now().UnixMilli()) })
}

// Stats are counters for metrics.
type Stats struct {
	Transactions int64 // committed for callers since Open
	Calls        int64 // calls that they carried: more than transactions when callers were grouped
	FileBytes    int64 // of the database and its log
}

// Stats returns the counters now.
func (s *Store) Stats() Stats {
	st := Stats{Transactions: s.transactions.Load(), Calls: s.calls.Load()}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.cfg.Path + suffix); err == nil {
			st.FileBytes += info.Size()
		}
	}
	return st
}

var errClosed = errors.New("closed")

func (s *Store) closed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

// Close implements sessions.Store.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		s.wg.Wait()
		s.watchers.Close()
		s.closeErr = s.release()
	})
	return s.closeErr
}

// release closes what open has opened. The writer's connection is the last to go: it copies the log into the database.
func (s *Store) release() error {
	var errs []error
	if s.readerDB != nil {
		errs = append(errs, s.readerDB.Close())
	}
	if s.writer != nil {
		errs = append(errs, s.writer.close())
	}
	if s.conn != nil {
		errs = append(errs, s.conn.Close())
	}
	if s.writerDB != nil {
		errs = append(errs, s.writerDB.Close())
	}
	return errors.Join(append(errs, s.lock.Close())...)
}
