package sessions_test

import (
	"crypto/rand"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/acpgate/acpgate/sessions"
	"github.com/acpgate/acpgate/sessions/redisstore"
	"github.com/acpgate/acpgate/sessions/sqlitestore"
	"github.com/acpgate/acpgate/sessions/storetest"
)

// TestRules_OnRealStores runs the tests of the rules whose outcome a store has a part in on SQLite and on a Redis server. The
// tests run in their bubbles as ever; only the store is outside.
func TestRules_OnRealStores(t *testing.T) {
	tests := map[string]func(*testing.T){
		"V1_HandleNeverChanges":               TestV1_HandleNeverChanges,
		"V2_FiveViewsRaceForOneSession":       TestV2_FiveViewsRaceForOneSession,
		"V2_LoadOfALiveSession":               TestV2_LoadOfALiveSessionIsServedFromTheJournal,
		"V2_SessionOfAStoredViewIsInUse":      TestV2_SessionOfAStoredViewIsInUse,
		"V2_StormOfMoves":                     TestV2_StormOfMoves,
		"V3_HandleOfALiveView":                TestV3_HandleOfALiveViewIsUsableWithoutOpening,
		"V4_BindingBeforeHandle":              TestV4_BindingBeforeHandle,
		"V4_DriftedViewComesHome":             TestV4_DriftedViewComesHomeUnlessAskedAsItIs,
		"V4_EmptyHomeIsNoHome":                TestV4_EmptyHomeIsNoHome,
		"V5_AliasIsDropped":                   TestV5_AliasOfASessionThatWasLeftIsDropped,
		"V5_AliasOfBeforeARestart":            TestV5_AliasOfBeforeARestartIsDropped,
		"V6_NewAndBackAgain":                  TestV6_NewAndBackAgain,
		"V6_FailedRebind":                     TestV6_FailedRebindKeepsTheOldBinding,
		"V7_TurnLock":                         TestV7_NothingRebindsWhileATurnRuns,
		"V8_LateUpdates":                      TestV8_LateUpdatesOfTheSessionLeftBehindStayThere,
		"V9_Window":                           TestV9_WindowIsFirst10GapLast200AndTextsAreCapped,
		"V10_ReplayIDs":                       TestV10_ReplayIDs,
		"V11_CursorOfASessionThatWasLeft":     TestV11_CursorIntoASessionThatTheViewHasLeft,
		"V11_CursorIntoAForeignSession":       TestV11_CursorIntoAForeignSession,
		"V11_DroppingTheConnection":           TestV11_DroppingTheConnectionAnywhereLosesAndDoublesNothing,
		"V11_RestartsAndDrops":                TestV11_RestartsAndDropsLoseAndDoubleNothing,
		"V12_ClosedIsClosedAtOnce":            TestV12_ClosedIsClosedAtOnce,
		"V12_CloseStopsTheTurn":               TestV12_CloseStopsTheTurnAndIsIdempotent,
		"V13_StoredViewsEndToo":               TestV13_StoredViewsEndToo,
		"V13_DropAndDelete":                   TestV13_DropAndDelete,
		"V14_Adoption":                        TestV14_Adoption,
		"V14_ClosedAndDeletedSurviveARestart": TestStore_ClosedAndDeletedSurviveARestart,
		"V15_References":                      TestV15_References,
		"V16_KeysSurviveARestart":             TestV16_KeysSurviveARestart,
		"V16_KeyOfALargeResult":               TestV16_KeyOfALargeResultSurvivesARestart,
		"V16_Queue":                           TestV16_PromptsQueueAndRunInOrder,
		"V17_Cancel":                          TestV17_CancelAnswersRequestsThenQueueThenAgent,
		"V18_FirstValidAnswerWins":            TestV18_FirstValidAnswerWins,
		"V18_OpenRequestsAreSentAgain":        TestV18_OpenRequestsAreSentAgainOnAttach,
		"V19_OthersSeeThePrompt":              TestV19_OthersSeeThePrompt,
		"V20_SessionMadeAnew":                 TestV20_SessionMadeAnewIsKept,
		"V20_SleepingViewsLeaveTheMemory":     TestV20_SleepingViewsLeaveTheMemory,
		"V20_IdleViewSleeps":                  TestV20_IdleViewSleepsAndThePromptWakesIt,
		"V21_LateJoiner":                      TestV21_LateJoinerGetsASnapshot,
		"Store_RestartKeepsEverything":        TestStore_RestartKeepsEverything,
		"Store_CrashIsToldByANewEpoch":        TestStore_CrashIsToldByANewEpoch,
		"Store_RenewedSession":                TestStore_RenewedSessionIsStored,
	}
	run := func(name string, open openStore) {
		t.Run(name, func(t *testing.T) {
			for name, test := range tests {
				t.Run(name, func(t *testing.T) {
					realStores.Store(t.Name(), open)
					defer realStores.Delete(t.Name())
					test(t)
				})
			}
		})
	}
	run("sqlite", openSQLite)
	run("redis", openRedis(storetest.Redis(t).URL()))
}

// openStore opens a store that nobody else uses.
type openStore func(t testing.TB) (sessions.Store, error)

// realStores says on which store the scenarios of a test run, by the test's name.
var realStores sync.Map

// realStore opens the store that t or a test above it is to run on, nil for the one in memory.
func realStore(t *testing.T) sessions.Store {
	t.Helper()
	for name := t.Name(); name != ""; name = name[:max(strings.LastIndexByte(name, '/'), 0)] {
		open, ok := realStores.Load(name)
		if !ok {
			continue
		}
		s, err := open.(openStore)(t)
		if err != nil {
			t.Fatal(err)
		}
		return newOutside(t, s)
	}
	return nil
}

func openSQLite(t testing.TB) (sessions.Store, error) {
	return sqlitestore.Open(t.Context(), sqlitestore.Config{
		Path: filepath.Join(t.TempDir(), "acpgate.db"), Logger: slog.New(slog.DiscardHandler),
	})
}

func openRedis(url string) openStore {
	return func(t testing.TB) (sessions.Store, error) {
		return redisstore.Open(t.Context(), redisstore.Config{
			URL: url, Prefix: "test-" + rand.Text(), Logger: slog.New(slog.DiscardHandler),
		})
	}
}
