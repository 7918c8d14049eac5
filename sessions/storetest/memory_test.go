package storetest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestN1_MemoryKeepsTheContract(t *testing.T) {
	storetest.Run(t, func(testing.TB) storetest.Backend {
		return storetest.Backend{Open: func(testing.TB) sessions.Store { return storetest.NewMemory() }, Forgets: true}
	})
}
