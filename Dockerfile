# The operator's image: docker build -t sprite-operator .
# spritesd is not in it: that is a tool of developers' machines.

FROM rust:1.95.0-bookworm AS build
# The image's own toolchain, without the components that rust-toolchain.toml adds for developers.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /src
COPY Cargo.toml Cargo.lock build.rs ./
COPY src ./src
COPY crates ./crates
# The manifests name them; they are not built.
COPY tests ./tests
COPY benches ./benches
RUN cargo build --release --locked --package sprite-operator

# glibc of the same Debian, root certificates, a user `nonroot`, no shell.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/sprite-operator /usr/bin/sprite-operator
USER 65532:65532
ENTRYPOINT ["/usr/bin/sprite-operator"]
CMD ["run"]
