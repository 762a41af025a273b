//! The functions of a program that led to a sleep, as one text: reports and files have thousands of such stacks.

/// A function of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CodeFunction<'s> {
    /// The program or library that it is in, without directory; empty for what a just-in-time compiler wrote.
    pub module: &'s str,
    /// Name of the function; empty if it is unknown.
    pub name: &'s str,
}

impl<'s> CodeFunction<'s> {
    /// The functions of a stack, in its order: the innermost first.
    pub fn all(stack: &'s str) -> impl DoubleEndedIterator<Item = Self> + Clone {
        stack.split(';').map(|text| {
            let (module, name) = text.split_once(':').unwrap_or((text, ""));
            Self { module, name }
        })
    }

    /// The function in a stack: `module:name`. What would end one of both is replaced.
    pub fn text(self) -> String {
        format!("{}:{}", self.module.replace([':', ';'], "_"), self.name.replace(';', ","))
    }

    /// The name, or in brackets what it is in.
    pub fn label(self) -> String {
        match self {
            Self { name: "", module: "" } => "[compiled code]".to_owned(),
            Self { name: "", module } => format!("[{module}]"),
            Self { name, .. } => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_names_make_a_stack_whose_functions_are_found_again() {
        let functions = [("libc.so.6", "poll"), ("a:b;c", "f<x;y>::g"), ("redis-server", ""), ("", "")];
        let texts = functions.map(|(module, name)| CodeFunction { module, name }.text());
        let stack = texts.join(";");
        let labels: Vec<_> = CodeFunction::all(&stack).map(CodeFunction::label).collect();
        assert_eq!(labels, ["poll", "f<x,y>::g", "[redis-server]", "[compiled code]"]);
        assert_eq!(CodeFunction::all(&stack).nth(1), Some(CodeFunction { module: "a_b_c", name: "f<x,y>::g" }));
    }
}
