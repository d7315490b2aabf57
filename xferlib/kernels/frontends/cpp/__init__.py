"""C++ and the preprocessor in snippets: macros, templates, names of types."""
