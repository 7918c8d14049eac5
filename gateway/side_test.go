package gateway

import (
	"fmt"
	"testing"
)

// The methods of a side conversation reach the view; elsewhere they are refused with a reason, not unknown.
func TestS9_MergeMethodsReachTheView(t *testing.T) {
	c := open(t).dial().initialize()
	s := c.newSession()
	for _, method := range []string{"_acpgate/merge_preview", "_acpgate/merge"} {
		c.ask(method, fmt.Sprintf(`{"sessionId":%q,"note":"x"}`, s)).wantError(t, -32602, "not_side")
	}
}
