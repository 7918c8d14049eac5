package demo

import (
	"encoding/json"
	"errors"
	"fmt"

	acp "github.com/coder/acp-go-sdk"
)

// The SDK's requests have no session id; the protocol's session scope does.
type (
	formRequest struct {
		acp.UnstableElicitationSessionScope
		acp.UnstableCreateElicitationForm
	}
	urlRequest struct {
		acp.UnstableElicitationSessionScope
		acp.UnstableCreateElicitationUrl
	}
)

// elicit asks a structured question and says what was answered: ELICIT for a form, ELICIT:url for a page to visit.
func (t *turn) elicit(arg string) error {
	t.flush()
	client := t.s.a.clientInfo()
	scope := acp.UnstableElicitationSessionScope{SessionId: acp.SessionId(t.s.id)}
	var params any
	switch {
	case arg == "" && !client.form, arg == "url" && !client.url:
		return t.stream("This client cannot show elicitations of that kind.\n")
	case arg == "":
		params = formRequest{scope, acp.UnstableCreateElicitationForm{
			Mode: "form", Message: "How shall the demo go on?", RequestedSchema: sampleForm(),
		}}
	case arg == "url":
		params = urlRequest{scope, acp.UnstableCreateElicitationUrl{
			Mode: "url", Message: "Please look at this page.", Url: "https://example.com/", ElicitationId: acp.UnstableElicitationId(newUUID()),
		}}
	default:
		return badArg("ELICIT", arg, `nothing or "url"`)
	}
	var answer acp.UnstableCreateElicitationResponse
	err := t.s.a.conn.call(t.sleeps, acp.ClientMethodElicitationCreate, params, &answer)
	var rpc *acp.RequestError
	switch {
	case errors.As(err, &rpc):
		return t.stream(fmt.Sprintf("The client could not ask: %s\n", rpc.Message))
	case err != nil:
		return err
	case answer.Decline != nil:
		return t.stream("Answer: declined.\n")
	case answer.Accept == nil:
		return t.stream("Answer: cancelled.\n")
	}
	content, err := json.Marshal(answer.Accept.Content)
	if err != nil {
		return err
	}
	return t.stream(fmt.Sprintf("Answer: %s\n", content))
}

// sampleForm has a field of each kind.
func sampleForm() acp.UnstableElicitationSchema {
	return acp.UnstableElicitationSchema{
		Type:  acp.UnstableElicitationSchemaTypeObject,
		Title: acp.Ptr("Demo form"),
		Properties: map[string]any{
			"strategy": map[string]any{
				"type": "string", "title": "Strategy", "default": "careful",
				"oneOf": []map[string]string{{"const": "careful", "title": "Careful"}, {"const": "bold", "title": "Bold"}},
			},
			"comment": map[string]any{"type": "string", "title": "Comment", "maxLength": 200},
			"tests":   map[string]any{"type": "boolean", "title": "Run the tests", "default": true},
			"retries": map[string]any{"type": "integer", "title": "Retries", "minimum": 0, "maximum": 5, "default": 1},
		},
		Required: []string{"strategy"},
	}
}
