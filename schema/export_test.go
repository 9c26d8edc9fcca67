package schema

// CompileGeneral compiles for the general validator whatever the schema.
func CompileGeneral(schema []byte) (*Validator, error) {
	g, err := compileGeneral(schema, &CompileOptions{})
	if err != nil {
		return nil, err
	}
	return &Validator{general: g, maxWork: DefaultMaxWork}, nil
}

// IsGeneral reports whether v hands instances to the general validator.
func IsGeneral(v *Validator) bool { return v.general != nil }
