package era

import (
	"crypto/rand"
	"fmt"

	"github.com/dovetail-go/dovetail/internal/jsonscan"
	"github.com/dovetail-go/dovetail/jsonrpc"
	"github.com/dovetail-go/dovetail/mcp"
)

// capabilitiesFor are a server's capabilities in the words of a version.
func capabilitiesFor(version mcp.Version, has mcp.ServerCapabilities) mcp.ServerCapabilities {
	if version < mcp.Version20250326 {
		has.Completions = nil
	}
	if version != mcp.Version20251125 {
		has.Tasks = nil
	}
	if !version.Modern() {
		has.Extensions = nil
	}
	return has
}

// capabilitiesAs are a client's capabilities in the words of a version.
func capabilitiesAs(version mcp.Version, has mcp.ClientCapabilities) mcp.ClientCapabilities {
	if version < mcp.Version20250618 {
		has.Elicitation = nil
	}
	if version < mcp.Version20251125 {
		if has.Elicitation != nil {
			has.Elicitation = &mcp.ElicitationCapability{}
		}
		if has.Sampling != nil {
			has.Sampling = &mcp.SamplingCapability{}
		}
	}
	if version != mcp.Version20251125 {
		has.Tasks = nil
	}
	if version.Modern() && has.Roots != nil {
		has.Roots = &mcp.RootsCapability{}
	}
	if !version.Modern() {
		has.Extensions = nil
	}
	return has
}

// implementationFor is who somebody is in the words of a version.
func implementationFor(version mcp.Version, who mcp.Implementation) mcp.Implementation {
	if version < mcp.Version20251125 {
		who.Icons, who.Description, who.WebsiteURL = nil, "", ""
	}
	if version < mcp.Version20250618 {
		who.Title = ""
	}
	return who
}

// filteredParams are a notification's parameters in the words of a version.
func filteredParams(version mcp.Version, method string, params jsonrpc.Appender) (jsonrpc.Appender, error) {
	if method != mcp.NotificationProgress || version >= mcp.Version20250326 {
		return params, nil
	}
	switch p := params.(type) {
	case *mcp.ProgressParams:
		plain := *p
		plain.Message = ""
		return &plain, nil
	case mcp.Raw:
		plain, err := jsonscan.Splice(nil, p, jsonscan.Edit{Name: "message"})
		return mcp.Raw(plain), err
	}
	return params, nil
}

// questionFor are the parameters of a question as a request to a legacy client.
func questionFor(version mcp.Version, question mcp.InputRequest) (jsonrpc.Appender, error) {
	if question.Params == nil {
		return nil, nil
	}
	if question.Method != mcp.MethodElicit {
		return mcp.Raw(question.Params), nil
	}
	params, err := jsonscan.ReadObject(question.Params)
	if err != nil {
		return nil, fmt.Errorf("the question: %w", err)
	}
	var change jsonscan.Edit
	switch mode := params.Get("mode"); {
	case mode == nil:
		return mcp.Raw(question.Params), nil
	case version < mcp.Version20251125:
		change.Name = "mode" // there is but one
	case jsonscan.KeyIs(mode, string(mcp.ElicitURL)) && params.Get("elicitationId") == nil:
		change = jsonscan.Edit{Name: "elicitationId", Value: jsonscan.AppendString(nil, rand.Text())}
	default:
		return mcp.Raw(question.Params), nil
	}
	changed, err := jsonscan.Splice(nil, question.Params, change)
	return mcp.Raw(changed), err
}
