package client

import (
	"errors"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
)

// IsForbidden says whether an error is a server's refusal: a guard of it does not let
// this caller make the call, which nothing is wrong with otherwise. The error's message
// and data name the guard. It is known by what servers of this module send: the code
// [jsonrpc.InternalError] and data of the type FORBIDDEN. A guard that answers with an
// error of its own, or hides what it guards, cannot be told from other failures.
func IsForbidden(err error) bool {
	said, ok := errors.AsType[*jsonrpc.Error](err)
	if !ok || said.Code != jsonrpc.InternalError {
		return false
	}
	data, err := jsonscan.ReadObject(said.Data)
	if err != nil {
		return false
	}
	kind := data.Get("type")
	return jsonscan.KindOf(kind) == jsonscan.String && jsonscan.Unquote(kind) == "FORBIDDEN"
}
