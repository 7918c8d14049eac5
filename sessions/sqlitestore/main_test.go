package sqlitestore_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/sqlitestore"
	"github.com/acpgate/acpgate/sessions/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openAt(t testing.TB, path string) *sqlitestore.Store {
	t.Helper()
	s, err := sqlitestore.Open(t.Context(), sqlitestore.Config{Path: path, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestN1_SQLiteKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(t testing.TB) storetest.Backend {
		path := filepath.Join(t.TempDir(), "acpgate.db")
		return storetest.Backend{Open: func(t testing.TB) sessions.Store { return openAt(t, path) }}
	})
}
