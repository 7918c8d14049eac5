package wire

import "strconv"

// Every Append function appends one whole JSON-RPC 2.0 message, without newline, and returns the extended slice. id,
// result, params and data are raw JSON and are not checked.

// AppendRequest appends a request. params nil: no params.
func AppendRequest(dst, id []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	dst = append(dst, `,"method":`...)
	return appendParams(AppendQuote(dst, method), params)
}

// AppendNotification appends a notification. params nil: no params.
func AppendNotification(dst []byte, method string, params []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":`...)
	return appendParams(AppendQuote(dst, method), params)
}

func appendParams(dst, params []byte) []byte {
	if params != nil {
		dst = append(append(dst, `,"params":`...), params...)
	}
	return append(dst, '}')
}

// AppendResult appends a response. result nil: null.
func AppendResult(dst, id, result []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendOrNull(dst, id)
	dst = append(dst, `,"result":`...)
	return append(appendOrNull(dst, result), '}')
}

// AppendError appends an error response. id nil: null, for a request whose id could not be read (rule W3). data nil: no
// data.
func AppendError(dst, id []byte, code int, message string, data []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = appendOrNull(dst, id)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, `,"message":`...)
	dst = AppendQuote(dst, message)
	if data != nil {
		dst = append(append(dst, `,"data":`...), data...)
	}
	return append(dst, "}}"...)
}

func appendOrNull(dst, raw []byte) []byte {
	if raw == nil {
		return append(dst, "null"...)
	}
	return append(dst, raw...)
}
