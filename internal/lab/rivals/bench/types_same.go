//go:build !manytypes

package main

import (
	"slices"

	mcpgoserver "github.com/mark3labs/mcp-go/server"
	gosdkmcp "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/dovetail-go/dovetail/server"
)

// maxTools is the number of tools that a server can have.
const maxTools = 1000

// A sameTool is the input and output of all tools, except in the program of [buildTypes].
type sameTool struct {
	Query string                 `json:"query"`
	Limit int                    `json:"limit,omitempty"`
	Tags  []string               `json:"tags,omitempty"`
	Place struct{ X, Y float64 } `json:"place"`
}

func toolsDovetail() []func(s *server.Server, name string) {
	return slices.Repeat([]func(*server.Server, string){addDovetail[*sameTool]}, maxTools)
}

func toolsGoSDK() []func(s *gosdkmcp.Server, name string) {
	return slices.Repeat([]func(*gosdkmcp.Server, string){addGoSDK[*sameTool]}, maxTools)
}

func toolsMCPGo() []func(s *mcpgoserver.MCPServer, name string) {
	return slices.Repeat([]func(*mcpgoserver.MCPServer, string){addMCPGo[sameTool]}, maxTools)
}
