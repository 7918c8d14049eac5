# acpgate in a container, without root. Two targets:
#
#   docker build -t acpgate --build-arg AGENTS="opencode-ai" .   acpgate on Node with the agents named (npm packages)
#   docker build -t acpgate --target minimal .                   the static binary alone, with its demo agent
#
# deploy/README.md says how to run them.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w" -o /out/acpgate ./cmd/acpgate
RUN install -d -m 0700 /out/root/var/lib/acpgate /out/root/home/node && install -d -m 0755 /out/root/work

FROM scratch AS minimal
COPY --from=build /out/acpgate /usr/local/bin/acpgate
COPY --from=build --chown=1000:1000 /out/root/ /
ENV PATH=/usr/local/bin HOME=/home/node \
    ACPGATE_LISTEN=0.0.0.0:8080 ACPGATE_STATE=/var/lib/acpgate ACPGATE_ROOT=/work
USER 1000:1000
WORKDIR /work
VOLUME ["/var/lib/acpgate", "/work"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["acpgate", "healthcheck"]
ENTRYPOINT ["acpgate"]

# User 1000 is "node" in this image. Most agents call git and rg; bubblewrap is for agents with a sandbox.
FROM node:22-bookworm-slim AS agents
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap ca-certificates git ripgrep \
    && rm -rf /var/lib/apt/lists/*
ARG AGENTS=""
RUN if [ -n "$AGENTS" ]; then npm install --global --no-audit --no-fund $AGENTS && npm cache clean --force; fi
RUN install -d -m 0700 -o node -g node /var/lib/acpgate && install -d -m 0755 -o node -g node /work
COPY --from=build /out/acpgate /usr/local/bin/acpgate
ENV ACPGATE_LISTEN=0.0.0.0:8080 ACPGATE_STATE=/var/lib/acpgate ACPGATE_ROOT=/work
USER 1000:1000
WORKDIR /work
VOLUME ["/var/lib/acpgate", "/work"]
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s CMD ["acpgate", "healthcheck"]
ENTRYPOINT ["acpgate"]
