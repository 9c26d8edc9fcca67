package approval

import (
	"context"
	"encoding/json"

	"github.com/dovetail-go/dovetail/mcp"
)

// ByCaller asks the person behind the client that makes the call, by elicitation (MCP
// 2025-11-25, client/elicitation), in the words of [Request.Text]. The client's word is all
// there is: use it where the client is trusted to ask, and the model is not. On a client's
// side, and where the client cannot be asked, there is nobody: [NoApprover].
func ByCaller() Approver { return byCaller{} }

type byCaller struct{}

// questionKey begins the key of the question among those of its call. The rest is the
// request's id, which nobody can know before it is asked.
const questionKey = "io.dovetail/approval/"

// Approve asks, or reads the answer.
func (byCaller) Approve(_ context.Context, r *Request) (Answer, error) {
	if r.call == nil {
		return Answer{}, Errorf(NoApprover, "the caller cannot be asked")
	}
	params, err := (&mcp.ElicitParams{
		Mode:            mcp.ElicitForm,
		Message:         question(r),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{}}`),
	}).AppendJSON(nil)
	if err != nil {
		return Answer{}, err
	}
	raw, err := r.call.Input(questionKey+r.ID, mcp.InputRequest{Method: mcp.MethodElicit, Params: params})
	if _, asks := mcp.AsInputRequired(err); asks {
		return Answer{}, err
	}
	if err != nil {
		return Answer{}, Errorf(NoApprover, "the caller cannot be asked: %v", err)
	}
	var result mcp.ElicitResult
	if err := result.UnmarshalJSON(raw); err != nil {
		return Answer{}, Errorf(Failed, "the answer to the approval: %v", err)
	}
	a := Answer{By: "the caller"}
	switch result.Action {
	case mcp.ElicitAccept:
		a.Approved = true
	case mcp.ElicitDecline:
	case mcp.ElicitCancel:
		a.Reason = "the question was dismissed"
	default:
		return Answer{}, Errorf(Failed, "the answer to the approval: action must be accept, decline or cancel")
	}
	return a, nil
}

// question is what a person is asked: all of it, and nothing that hides a part.
func question(r *Request) string {
	text := "Allow this call of " + Printable(r.Tool)
	if r.Server != "" {
		text += " on " + Printable(r.Server)
	}
	return text + "?\n" + r.Text()
}
