package wire_test

import (
	"fmt"

	"github.com/acpgate/acpgate/agentpool/wire"
)

// A prompt on its way to the agent: another id, the session of the agent for the handle of the client, and nothing of
// acpgate's own. The rest stays as it was written.
func Example() {
	in := []byte(`{"jsonrpc":"2.0","id":"a","method":"session/prompt","params":{"sessionId":"handle","big":1e400,
		"_meta":{"acpgate":{"key":"k1"},"traceparent":"00-..."}}}`)
	f, err := wire.ParseClient(in, wire.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	strip, _ := f.StripGateMeta()
	line := wire.Splice(nil, f.Raw, f.EditID([]byte("42")), f.EditSession([]byte(`"session"`)), strip)
	fmt.Printf("%s %s\n%s\n", f.Kind, f.Method, line)
	// Output:
	// request session/prompt
	// {"jsonrpc":"2.0","id":42,"method":"session/prompt","params":{"sessionId":"session","big":1e400, 		"_meta":{"traceparent":"00-..."}}}
}
