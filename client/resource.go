package client

import (
	"context"
	"iter"

	"github.com/dovetail-go/dovetail/mcp"
)

// Resources lists the server's resources, page by page.
func (s *Session) Resources(ctx context.Context) iter.Seq2[*mcp.Resource, error] {
	return pages(ctx, s, mcp.MethodResourcesList, func(r *mcp.ListResourcesResult) ([]mcp.Resource, *string) {
		return r.Resources, r.NextCursor
	})
}

// Templates lists the server's resource templates, page by page.
func (s *Session) Templates(ctx context.Context) iter.Seq2[*mcp.ResourceTemplate, error] {
	return pages(ctx, s, mcp.MethodResourceTemplatesList, func(r *mcp.ListResourceTemplatesResult) ([]mcp.ResourceTemplate, *string) {
		return r.ResourceTemplates, r.NextCursor
	})
}

// Read reads a resource. For one that does not exist the error is
// [mcp.IsResourceNotFound]. The result may come from the session's cache, unless
// opts has a Meta, which the server may answer to.
func (s *Session) Read(ctx context.Context, uri string, opts *CallOptions) (*mcp.ReadResourceResult, error) {
	meta, err := opts.meta()
	if err != nil {
		return nil, notSent(mcp.MethodResourcesRead, err)
	}
	result := new(mcp.ReadResourceResult)
	params := &mcp.ReadResourceParams{URI: uri, Meta: meta}
	if meta.IsZero() {
		err = s.fetch(ctx, mcp.MethodResourcesRead, uri, params, result, opts)
	} else {
		err = s.call(ctx, mcp.MethodResourcesRead, params, result, opts)
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}
