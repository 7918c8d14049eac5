package agentpool

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"

	"github.com/acpgate/acpgate/agentpool/wire"
	"github.com/acpgate/acpgate/sessions"
)

// protocolVersion is the ACP version that acpgate speaks on both sides (rule W1).
const protocolVersion = "1"

// initializeParams is what an agent is offered (rule W8): files only if its config says so, never a terminal, but the
// login methods that need one, since the page shows the command to run (rule W12).
func initializeParams(spec *Spec, version string) []byte {
	fs := "false"
	if spec.FS == FSGateway {
		fs = "true"
	}
	b := []byte(`{"protocolVersion":` + protocolVersion + `,"clientCapabilities":{"fs":{"readTextFile":` + fs +
		`,"writeTextFile":` + fs + `},"terminal":false,"auth":{"terminal":true},"elicitation":{"form":{},"url":{}}},` +
		`"clientInfo":{"name":"acpgate","title":"acpgate","version":`)
	return append(wire.AppendQuote(b, version), "}}"...)
}

// readInfo reads the result of initialize.
func readInfo(spec *Spec, result []byte) (*sessions.AgentInfo, error) {
	if len(result) == 0 || result[0] != '{' {
		return nil, fmt.Errorf("the answer to initialize is not an object")
	}
	if v := wire.Lookup(result, "protocolVersion").Of(result); v != nil && wire.CanonicalID(v) != protocolVersion {
		return nil, fmt.Errorf("it speaks ACP version %s, acpgate speaks version %s", v, protocolVersion)
	}
	has := func(path ...string) bool {
		v := wire.Lookup(result, path...).Of(result)
		return v != nil && string(v) != "null" && string(v) != "false"
	}
	text := func(path ...string) string {
		s, err := wire.Unquote(wire.Lookup(result, path...).Of(result))
		if err != nil {
			return ""
		}
		return s
	}
	info := &sessions.AgentInfo{
		Name: spec.Name, Title: spec.Title, Result: bytes.Clone(result),
		LoadSession:     has("agentCapabilities", "loadSession"),
		List:            has("agentCapabilities", "sessionCapabilities", "list"),
		Resume:          has("agentCapabilities", "sessionCapabilities", "resume"),
		Fork:            has("agentCapabilities", "sessionCapabilities", "fork"),
		Close:           has("agentCapabilities", "sessionCapabilities", "close"),
		Delete:          has("agentCapabilities", "sessionCapabilities", "delete"),
		EmbeddedContext: has("agentCapabilities", "promptCapabilities", "embeddedContext"),
		Logout:          has("agentCapabilities", "auth", "logout"),
		GatewayFS:       spec.FS == FSGateway,
		MCPServers:      spec.MCPServers,
	}
	for _, title := range []string{text("agentInfo", "title"), text("agentInfo", "name"), spec.Name} {
		if info.Title == "" {
			info.Title = title
		}
	}
	return info, nil
}

// fileName makes one path component of any text, different for different texts.
func fileName(text string) string {
	if plainName.MatchString(text) {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "~" + hex.EncodeToString(sum[:16])
}

// plainName leaves out what is special to a file system (letters that differ only in case are one name on some), a shell or
// a reader, and the first character of hashed names.
var plainName = regexp.MustCompile(`^[a-z0-9_][a-z0-9._@-]{0,63}$`)
