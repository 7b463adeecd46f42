//! Compiled policies, kept between reconciles. Expressions are costly to compile for every Run.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use api::ExecutionPolicy;
use kube::ResourceExt;

use super::compile::{self, Compiled, PolicyErrors};

/// A compiled policy, or everything that is wrong with it.
pub type Compilation = Result<Arc<Compiled>, PolicyErrors>;

/// Compiled policies by UID and generation: expressions are costly to compile for every Run.
#[derive(Debug, Default)]
pub struct Compilations {
    done: Mutex<HashMap<String, (i64, Compilation)>>,
}

impl Compilations {
    /// Most policies that are kept; beyond, all are forgotten.
    const MOST: usize = 10_000;

    /// The policy, compiled once a generation.
    pub fn of(&self, policy: &ExecutionPolicy, open_allowed: bool) -> Compilation {
        let generation = policy.metadata.generation.unwrap_or_default();
        // Without identity it cannot be told from another: compiled each time.
        let Some(uid) = policy.uid() else { return compile::compile(policy, open_allowed).map(Arc::new) };
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, compilation)) = done.get(&uid)
            && *known == generation
        {
            return compilation.clone();
        }
        let compilation = compile::compile(policy, open_allowed).map(Arc::new);
        if done.len() >= Self::MOST {
            done.clear();
        }
        done.insert(uid, (generation, compilation.clone()));
        compilation
    }
}
