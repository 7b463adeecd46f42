//! The text of an expression of CEL. PURE. Must not evaluate.

use super::expression::{Expression, Operator};

/// Reads a whole expression; nothing where there is something in it that is not known.
pub(super) fn read(text: &str) -> Option<Expression> {
    let mut reader = Reader { tokens: tokens(text)?, at: 0 };
    let expression = reader.or()?;
    (reader.at == reader.tokens.len()).then_some(expression)
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token<'t> {
    Word(&'t str),
    Text(&'t str),
    Number(i64),
    Sign(&'t str),
}

const SIGNS: [&str; 15] = ["&&", "||", "==", "!=", "<=", ">=", "<", ">", "!", "(", ")", "[", "]", ",", "."];

fn tokens(mut text: &str) -> Option<Vec<Token<'_>>> {
    let mut tokens = Vec::new();
    loop {
        text = text.trim_start();
        let Some(first) = text.chars().next() else { return Some(tokens) };
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let token = if first == '\'' {
            let inner = text.get(1..)?;
            let end = inner.find('\'')?;
            let inner = inner.get(..end)?;
            // An escape would have to be resolved.
            if inner.contains('\\') {
                return None;
            }
            text = text.get(end + 2..)?;
            Token::Text(inner)
        } else if word(first) {
            let end = text.find(|c| !word(c)).unwrap_or(text.len());
            let (head, rest) = text.split_at_checked(end)?;
            text = rest;
            if first.is_ascii_digit() { Token::Number(head.parse().ok()?) } else { Token::Word(head) }
        } else {
            let sign = SIGNS.iter().find(|sign| text.starts_with(**sign))?;
            text = text.strip_prefix(sign)?;
            Token::Sign(sign)
        };
        tokens.push(token);
    }
}

struct Reader<'t> {
    tokens: Vec<Token<'t>>,
    at: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Option<Token<'t>> {
        let token = self.tokens.get(self.at)?.clone();
        self.at += 1;
        Some(token)
    }

    fn is(&mut self, token: &Token<'_>) -> bool {
        let is = self.tokens.get(self.at) == Some(token);
        self.at += usize::from(is);
        is
    }

    fn sign(&mut self, sign: &str) -> bool {
        self.is(&Token::Sign(sign))
    }

    fn or(&mut self) -> Option<Expression> {
        let mut left = self.and()?;
        while self.sign("||") {
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Some(left)
    }

    fn and(&mut self) -> Option<Expression> {
        let mut left = self.comparison()?;
        while self.sign("&&") {
            left = Expression::And(Box::new(left), Box::new(self.comparison()?));
        }
        Some(left)
    }

    fn comparison(&mut self) -> Option<Expression> {
        const OPERATORS: [(&str, Operator); 6] = [
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
            ("<=", Operator::AtMost),
            (">=", Operator::AtLeast),
            ("<", Operator::Less),
            (">", Operator::More),
        ];
        let left = self.prefix()?;
        match OPERATORS.iter().find(|(sign, _)| self.sign(sign)) {
            Some((_, operator)) => Some(Expression::Compare(Box::new(left), *operator, Box::new(self.prefix()?))),
            None => Some(left),
        }
    }

    fn prefix(&mut self) -> Option<Expression> {
        if self.sign("!") { Some(Expression::Not(Box::new(self.prefix()?))) } else { self.postfix() }
    }

    fn postfix(&mut self) -> Option<Expression> {
        let mut inner = self.primary()?;
        while self.sign(".") {
            let Token::Word(word) = self.next()? else { return None };
            inner = match (word, self.sign("(")) {
                ("size", true) => self.sign(")").then(|| Expression::Size(Box::new(inner)))?,
                ("filter", true) => {
                    let same = self.is(&Token::Word("x")) && self.sign(",") && self.is(&Token::Word("x"));
                    (same && self.sign(")")).then(|| Expression::True(Box::new(inner)))?
                }
                (_, true) => return None,
                (name, false) => {
                    let Expression::Field(mut path) = inner else { return None };
                    path.push(name.to_owned());
                    Expression::Field(path)
                }
            };
        }
        Some(inner)
    }

    fn primary(&mut self) -> Option<Expression> {
        match self.next()? {
            Token::Text(text) => Some(Expression::Text(text.to_owned())),
            Token::Number(number) => Some(Expression::Number(number)),
            Token::Sign("(") => self.or().filter(|_| self.sign(")")),
            Token::Sign("[") => {
                let mut list = vec![self.or()?];
                while self.sign(",") {
                    list.push(self.or()?);
                }
                self.sign("]").then_some(Expression::List(list))
            }
            Token::Sign(_) => None,
            Token::Word("self") => Some(Expression::Field(Vec::new())),
            Token::Word(function) => {
                let argument = self.sign("(").then(|| self.or())?.filter(|_| self.sign(")"))?;
                match (function, argument) {
                    ("has", Expression::Field(path)) => Some(Expression::Has(path)),
                    ("size", argument) => Some(Expression::Size(Box::new(argument))),
                    ("bytes", argument) => Some(Expression::Bytes(Box::new(argument))),
                    ("duration", argument) => Some(Expression::Span(Box::new(argument))),
                    _ => None,
                }
            }
        }
    }
}
