package gateway

// Advice says whether a client should connect again after a close (rule W11).
type Advice string

const (
	Now   Advice = "now"   // at once, with a little jitter
	Later Advice = "later" // after a pause that grows
	Never Advice = "never" // not without a person doing something first
)

// CloseCode is one row of the close-code table.
type CloseCode struct {
	Code    int    `json:"code"`
	Name    string `json:"name"`
	Advice  Advice `json:"advice"`
	Meaning string `json:"meaning"` // what happened, as part of a sentence
}

// Codes with which the gateway closes a connection, and those that a client makes up when there was no close frame.
const (
	codeNormal      = 1000
	codeGoingAway   = 1001
	codeProtocol    = 1002
	codeNoStatus    = 1005
	codeAbnormal    = 1006
	codeTooBig      = 1009
	codeInternal    = 1011
	codeRestart     = 1012
	codeLagging     = 1013
	codeSignedOut   = 4401
	codePingTimeout = 4408
)

// CloseCodes is the table of close codes, by code. It is mirrored in README.md and in the page, which tests check. A
// client treats a code that is not in it like 1006: something between it and the gateway closed the connection.
func CloseCodes() []CloseCode {
	return []CloseCode{
		{codeNormal, "normal", Now, "the connection was closed normally"},
		{codeGoingAway, "going_away", Now, "the server or a proxy went away"},
		{codeProtocol, "protocol", Later, "a frame broke the WebSocket protocol"},
		{codeNoStatus, "no_status", Now, "the connection was closed without a reason"},
		{codeAbnormal, "abnormal", Now, "the connection was lost"},
		{codeTooBig, "too_big", Later, "a message was over the frame limit"},
		{codeInternal, "internal", Later, "the gateway failed"},
		{codeRestart, "restart", Later, "the gateway restarts"},
		{codeLagging, "lagging", Now, "this client was too slow"},
		{codeSignedOut, "signed_out", Never, "the login is over or was ended"},
		{codePingTimeout, "ping_timeout", Now, "this client did not answer a ping"},
	}
}

// closeName is the metric label of a close code: its name in the table, "other" for any other, so that clients cannot
// make up labels.
func closeName(code int) string {
	for _, c := range CloseCodes() {
		if c.Code == code {
			return c.Name
		}
	}
	return "other"
}
