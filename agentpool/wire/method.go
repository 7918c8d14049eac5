package wire

// methodName decodes a method token. The methods of ACP v1 and of acpgate are returned as constants, so that they do not
// allocate.
func methodName(tok []byte) string {
	switch string(tok[1 : len(tok)-1]) {
	case "session/update":
		return "session/update"
	case "session/prompt":
		return "session/prompt"
	case "session/cancel":
		return "session/cancel"
	case "session/request_permission":
		return "session/request_permission"
	case "session/new":
		return "session/new"
	case "session/load":
		return "session/load"
	case "session/resume":
		return "session/resume"
	case "session/fork":
		return "session/fork"
	case "session/list":
		return "session/list"
	case "session/close":
		return "session/close"
	case "session/delete":
		return "session/delete"
	case "session/set_mode":
		return "session/set_mode"
	case "session/set_model":
		return "session/set_model"
	case "session/set_config_option":
		return "session/set_config_option"
	case "initialize":
		return "initialize"
	case "authenticate":
		return "authenticate"
	case "logout":
		return "logout"
	case "elicitation/create":
		return "elicitation/create"
	case "elicitation/complete":
		return "elicitation/complete"
	case "fs/read_text_file":
		return "fs/read_text_file"
	case "fs/write_text_file":
		return "fs/write_text_file"
	case "terminal/create":
		return "terminal/create"
	case "terminal/output":
		return "terminal/output"
	case "terminal/release":
		return "terminal/release"
	case "terminal/wait_for_exit":
		return "terminal/wait_for_exit"
	case "terminal/kill":
		return "terminal/kill"
	case "$/cancel_request":
		return "$/cancel_request"
	case "$/ping":
		return "$/ping"
	case "_acpgate/ping":
		return "_acpgate/ping"
	case "_acpgate/state":
		return "_acpgate/state"
	case "_acpgate/force_stop":
		return "_acpgate/force_stop"
	case "_acpgate/queue_cancel":
		return "_acpgate/queue_cancel"
	}
	return string(appendDecoded(nil, tok[1:len(tok)-1]))
}
