"""The front end of C snippets: the text of a kernel becomes the nodes of a program.

In the order in which a text passes through them:

- `preprocess`: characters to tokens; macros are replaced and conditions decided, on tokens.
- `syntax`: tokens to the syntax tree of tree-sitter, with its grammar of CUDA C++.
- `parse`: that to a small typed `tree`. Which names are types is known here by block, and decides where C++ has two
  meanings for one text.
- `scope`: the types and objects that names stand for; `memory`: their contents. A reference has no object of its own:
  it is its target; so is ``this``. A constant of a header is a name of the outermost block, which any other one hides,
  and a ``typedef`` is a name of the block in which it stands.
- `translate`: statements and expressions to nodes, by `translate.Translator`. An expression is evaluated once, as an
  object or as a value. Its parts, which know it as a `translation.Translation`, are `types`: what names and
  declarations mean as types, and conversions to them; `loops`; and `calls`: functions, methods, operators,
  constructors, templates and atomic functions, inlined where they are called. `functions` is the table of C's and
  CUDA's own, and of headers' numbers.

A definition (`xferlib.kernels.definitions`) parses its texts once, and translates them once for each set of
dtypes. What is not supported is refused by its name, with the line and a caret; the work of a translation is counted,
in `Builder.work`, and bounded. Sources of raw kernels (`xferlib.kernels.cuda_signature`) are read by `preprocess` and
the parser of `syntax` too.
"""
