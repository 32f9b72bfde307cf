//! A GraphQL document with operations and fragments, parsed in full, and what each operation asks for at its root:
//! fields by their own names, not their aliases, through fragments, and regardless of directives.
//!
//! Parsed by hand: the grammar of requests is small, every byte must have one meaning, and the depth is bounded. The
//! crates for it also parse schemas, depend on a parser library, and accept invalid documents.

use std::collections::{HashMap, HashSet};

use super::super::MessageError;
use super::super::operation::GraphqlOperation;
use super::lexer::{Lexer, Token};

const MAX_DEPTH: usize = 64;
/// Names are shown in messages and in the record.
const MAX_NAME_BYTES: usize = 256;
const MAX_DEFINITIONS: usize = 100;

/// One entry of a selection.
enum Selection<'a> {
    Field(&'a str),
    Spread(&'a str),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    next: Token<'a>,
    depth: usize,
}

/// The operations of a document, in order; at least one.
pub(super) fn operations(text: &str) -> Result<Vec<GraphqlOperation>, MessageError> {
    let mut lexer = Lexer::new(text);
    let next = lexer.next()?;
    let mut parser = Parser { lexer, next, depth: 0 };
    let mut operations = Vec::new();
    let mut fragments = HashMap::new();
    while parser.next != Token::End {
        if operations.len() + fragments.len() == MAX_DEFINITIONS {
            return Err(parser.wrong("there are too many definitions"));
        }
        if parser.next == Token::Name("fragment") {
            let (name, selections) = parser.fragment()?;
            if fragments.insert(name, selections).is_some() {
                return Err(parser.wrong("two fragments have the same name"));
            }
        } else {
            operations.push(parser.operation()?);
        }
    }
    let names: HashSet<Option<&str>> = operations.iter().map(|(_, name, _)| *name).collect();
    if operations.is_empty() || names.len() < operations.len() || (names.contains(&None) && names.len() > 1) {
        return Err(parser.wrong("there must be one operation, or several with different names"));
    }
    let resolved = |(kind, name, selections): &(&str, Option<&str>, Vec<Selection<'_>>)| {
        let mut fields = Vec::new();
        resolve(selections, &fragments, &mut HashSet::new(), &mut fields)?;
        Ok(GraphqlOperation { operation_type: (*kind).to_owned(), name: name.map(str::to_owned), fields })
    };
    operations.iter().map(resolved).collect()
}

fn resolve<'a>(
    selections: &[Selection<'a>],
    fragments: &HashMap<&'a str, Vec<Selection<'a>>>,
    spread: &mut HashSet<&'a str>,
    fields: &mut Vec<String>,
) -> Result<(), MessageError> {
    for selection in selections {
        match selection {
            Selection::Field(name) if fields.iter().any(|field| field == name) => {}
            Selection::Field(name) => fields.push((*name).to_owned()),
            Selection::Spread(name) if spread.contains(name) => {}
            Selection::Spread(name) => {
                let Some(inner) = fragments.get(name) else {
                    return Err(MessageError::new(
                        "the GraphQL document uses a fragment that it does not define",
                    ));
                };
                if spread.len() == MAX_DEPTH {
                    return Err(MessageError::new("the GraphQL document nests too many fragments"));
                }
                spread.insert(*name);
                resolve(inner, fragments, spread, fields)?;
            }
        }
    }
    Ok(())
}

type ParsedOperation<'a> = (&'a str, Option<&'a str>, Vec<Selection<'a>>);

impl<'a> Parser<'a> {
    fn wrong(&self, what: &str) -> MessageError {
        self.lexer.error(what)
    }

    fn advance(&mut self) -> Result<Token<'a>, MessageError> {
        let next = self.lexer.next()?;
        Ok(std::mem::replace(&mut self.next, next))
    }

    /// Takes the punctuator if it is next.
    fn takes(&mut self, punctuator: u8) -> Result<bool, MessageError> {
        let is_next = self.next == Token::Punctuator(punctuator);
        if is_next {
            self.advance()?;
        }
        Ok(is_next)
    }

    fn expect(&mut self, punctuator: u8) -> Result<(), MessageError> {
        if self.takes(punctuator)? {
            return Ok(());
        }
        Err(self.wrong(&format!("`{}` is missing", char::from(punctuator))))
    }

    fn name(&mut self) -> Result<&'a str, MessageError> {
        match self.advance()? {
            Token::Name(name) if name.len() <= MAX_NAME_BYTES => Ok(name),
            _ => Err(self.wrong("a name is missing or too long")),
        }
    }

    fn deeper(&mut self) -> Result<(), MessageError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.wrong("it is nested too deeply")) } else { Ok(()) }
    }

    fn operation(&mut self) -> Result<ParsedOperation<'a>, MessageError> {
        if self.next == Token::Punctuator(b'{') {
            return Ok(("query", None, self.selection_set()?));
        }
        let kind = self.name()?;
        if !["query", "mutation", "subscription"].contains(&kind) {
            return Err(self.wrong("only operations and fragments can be requested"));
        }
        let name = match self.next {
            Token::Name(_) => Some(self.name()?),
            _ => None,
        };
        self.variables()?;
        self.directives()?;
        Ok((kind, name, self.selection_set()?))
    }

    fn fragment(&mut self) -> Result<(&'a str, Vec<Selection<'a>>), MessageError> {
        self.name()?;
        let name = self.name()?;
        if name == "on" || self.name()? != "on" {
            return Err(self.wrong("a fragment has no name or no type"));
        }
        self.name()?;
        self.directives()?;
        Ok((name, self.selection_set()?))
    }

    fn variables(&mut self) -> Result<(), MessageError> {
        if !self.takes(b'(')? {
            return Ok(());
        }
        loop {
            self.expect(b'$')?;
            self.name()?;
            self.expect(b':')?;
            self.type_reference()?;
            if self.takes(b'=')? {
                self.value()?;
            }
            self.directives()?;
            if self.takes(b')')? {
                return Ok(());
            }
        }
    }

    fn type_reference(&mut self) -> Result<(), MessageError> {
        self.deeper()?;
        if self.takes(b'[')? {
            self.type_reference()?;
            self.expect(b']')?;
        } else {
            self.name()?;
        }
        self.takes(b'!')?;
        self.depth -= 1;
        Ok(())
    }

    fn directives(&mut self) -> Result<(), MessageError> {
        while self.takes(b'@')? {
            self.name()?;
            self.arguments()?;
        }
        Ok(())
    }

    fn arguments(&mut self) -> Result<(), MessageError> {
        if !self.takes(b'(')? {
            return Ok(());
        }
        loop {
            self.name()?;
            self.expect(b':')?;
            self.value()?;
            if self.takes(b')')? {
                return Ok(());
            }
        }
    }

    fn value(&mut self) -> Result<(), MessageError> {
        self.deeper()?;
        match self.advance()? {
            Token::Number | Token::Text | Token::Name(_) => {}
            Token::Punctuator(b'$') => drop(self.name()?),
            Token::Punctuator(b'[') => {
                while !self.takes(b']')? {
                    self.value()?;
                }
            }
            Token::Punctuator(b'{') => {
                while !self.takes(b'}')? {
                    self.name()?;
                    self.expect(b':')?;
                    self.value()?;
                }
            }
            Token::Punctuator(_) | Token::Spread | Token::End => return Err(self.wrong("a value is missing")),
        }
        self.depth -= 1;
        Ok(())
    }

    /// What is selected at this level; inline fragments are part of it.
    fn selection_set(&mut self) -> Result<Vec<Selection<'a>>, MessageError> {
        self.deeper()?;
        self.expect(b'{')?;
        let mut selections = Vec::new();
        loop {
            self.selection(&mut selections)?;
            if self.takes(b'}')? {
                self.depth -= 1;
                return Ok(selections);
            }
        }
    }

    fn selection(&mut self, selections: &mut Vec<Selection<'a>>) -> Result<(), MessageError> {
        if self.next == Token::Spread {
            self.advance()?;
            match self.next {
                Token::Name(name) if name != "on" => {
                    selections.push(Selection::Spread(self.name()?));
                    return self.directives();
                }
                Token::Name(_) => {
                    self.name()?;
                    self.name()?;
                }
                _ => {}
            }
            self.directives()?;
            selections.extend(self.selection_set()?);
            return Ok(());
        }
        let mut name = self.name()?;
        if self.takes(b':')? {
            name = self.name()?;
        }
        selections.push(Selection::Field(name));
        self.arguments()?;
        self.directives()?;
        if self.next == Token::Punctuator(b'{') {
            self.selection_set()?;
        }
        Ok(())
    }
}
