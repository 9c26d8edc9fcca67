package main

import (
	"fmt"
	"go/ast"
	"maps"
	"slices"
)

// A service is a type some of whose methods can be registered.
type service struct {
	name       string // of the type
	parameters int    // of the type, if it is generic
	pointer    bool   // some of them need a pointer
	texts      []text
}

// A text is what a comment says of a method, or of a field of its arguments.
type text struct{ key, value string }

// services finds those of a package, by their names.
func (s *source) services(pkg *sourcePackage) ([]service, error) {
	var services []service
	for _, name := range slices.Sorted(maps.Keys(pkg.types)) {
		decl := pkg.types[name]
		if _, abstract := decl.Type.(*ast.InterfaceType); abstract || decl.Assign.IsValid() {
			continue
		}
		found, err := s.service(decl)
		if err != nil {
			return nil, err
		}
		if found != nil {
			services = append(services, *found)
		}
	}
	if len(services) == 0 {
		return nil, fmt.Errorf("%s: there is no service in package %s: no exported method takes a context.Context and "+
			"a struct with a blank field of type server.ToolTag, server.ResourceTag or server.PromptTag", s.folder, pkg.name)
	}
	return services, nil
}

// service describes a type, nil if it is none.
func (s *source) service(decl *typeDecl) (*service, error) {
	methods, err := s.methodSet(decl)
	if err != nil {
		return nil, err
	}
	var found *service
	for _, m := range methods {
		if !ast.IsExported(m.name) {
			continue
		}
		arguments, err := s.argumentsOf(m)
		if err != nil {
			return nil, err
		}
		if arguments == nil {
			continue
		}
		if found == nil {
			found = &service{name: decl.Name.Name}
			if decl.TypeParams != nil {
				found.parameters = decl.TypeParams.NumFields()
			}
		}
		found.pointer = found.pointer || m.pointer
		if err := s.describe(found, m, arguments); err != nil {
			return nil, err
		}
	}
	if found == nil {
		return nil, nil
	}
	for _, m := range decl.in.pkg.methods[decl.Name.Name] {
		if m.name == "Descriptions" {
			return nil, s.at(m.pos, "%s has a method Descriptions already: delete it, or do without mcpgen", decl.Name.Name)
		}
	}
	return found, nil
}

// describe adds what the comments of a method and of its arguments say.
func (s *source) describe(of *service, m method, arguments *arguments) error {
	if says := m.in.describe(m.name, m.doc); says != "" {
		of.texts = append(of.texts, text{m.name, says})
	}
	if arguments.tag == resourceTag {
		return nil // the variables of a template have no descriptions
	}
	fields, err := s.fieldsOf(arguments)
	if err != nil {
		return err
	}
	for _, field := range fields {
		if field.text != "" {
			of.texts = append(of.texts, text{m.name + "." + field.name, field.text})
		}
	}
	return nil
}
