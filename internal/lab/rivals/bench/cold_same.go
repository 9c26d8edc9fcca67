//go:build !coldtypes

package main

import (
	"slices"

	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdkmcp "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dovetail-go/dovetail/server"
)

// coldTools is how many tools a server can be given.
const coldTools = 1000

// A coldTool is the input and the output of all tools, except for the tools of a [coldProgram], which has
// a type for each tool.
type coldTool struct {
	Query string                 `json:"query"`
	Limit int                    `json:"limit,omitempty"`
	Tags  []string               `json:"tags,omitempty"`
	Place struct{ X, Y float64 } `json:"place"`
}

func coldDovetail() []func(s *server.Server, name string) {
	return slices.Repeat([]func(*server.Server, string){addDovetail[*coldTool]}, coldTools)
}

func coldGoSDK() []func(s *gosdkmcp.Server, name string) {
	return slices.Repeat([]func(*gosdkmcp.Server, string){addGoSDK[*coldTool]}, coldTools)
}

func coldMCPGo() []func(s *mcpgoserver.MCPServer, name string) {
	return slices.Repeat([]func(*mcpgoserver.MCPServer, string){addMCPGo[coldTool]}, coldTools)
}
