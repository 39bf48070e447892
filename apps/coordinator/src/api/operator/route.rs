//! One request of the API: its handler, and its description for the OpenAPI document.

use axum::extract::DefaultBodyLimit;
use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use utoipa::openapi::path::{Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::openapi::{KnownFormat, Ref, RefOr, Required, SchemaFormat};
use utoipa::{IntoParams, ToSchema};

use crate::api::{Context, MAX_BODY};
use crate::contract::{ErrorCode, NetworkQuery};
use crate::state::{Access, Area, Need};

/// One request of the API.
pub(in crate::api) struct Route {
    pub(in crate::api) method: Method,
    pub(in crate::api) path: &'static str,
    pub(in crate::api) handler: MethodRouter<Context>,
    /// True if the request needs no credential.
    pub(in crate::api) open: bool,
    /// True for a request with which a person gets a first credential: it needs no credential, but the limits of the API apply to it.
    pub(in crate::api) is_front: bool,
    /// Limit on the body, in bytes.
    pub(super) max_body: usize,
    /// Rights that a caller with a credential needs for the request.
    pub(super) need: Need,
    /// Name of the operation, for generated clients.
    pub(super) id: &'static str,
    pub(super) summary: &'static str,
    pub(super) parameters: Vec<Parameter>,
    pub(super) body: Option<RefOr<Schema>>,
    /// Status of an answer without failure.
    pub(super) status: u16,
    /// Schema of that answer.
    pub(super) answer: RefOr<Schema>,
    /// Failures of this request, besides those of all requests.
    pub(super) failures: Vec<ErrorCode>,
    /// Schemas of the types that this request names.
    pub(super) schemas: Vec<(String, RefOr<Schema>)>,
}

impl Route {
    fn new<H, T>(method: Method, path: &'static str, id: &'static str, summary: &'static str, handler: H) -> Self
    where
        H: Handler<T, Context>,
        T: 'static,
    {
        let filter = MethodFilter::try_from(method.clone()).expect("the table has only methods of HTTP");
        Self {
            method,
            path,
            handler: on(filter, handler),
            open: false,
            is_front: false,
            max_body: MAX_BODY,
            need: Need::OWNER,
            id,
            summary,
            parameters: Vec::new(),
            body: None,
            status: 200,
            answer: ObjectBuilder::new().schema_type(Type::Object).into(),
            failures: if path.contains('{') { vec![ErrorCode::BadRequest] } else { Vec::new() },
            schemas: Vec::new(),
        }
    }

    pub(super) fn get<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::GET, path, id, summary, handler)
    }

    pub(super) fn post<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self { status: 201, ..Self::new(Method::POST, path, id, summary, handler) }
    }

    pub(super) fn patch<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::PATCH, path, id, summary, handler)
    }

    pub(super) fn delete<H: Handler<T, Context>, T: 'static>(
        path: &'static str,
        id: &'static str,
        summary: &'static str,
        handler: H,
    ) -> Self {
        Self::new(Method::DELETE, path, id, summary, handler)
    }

    /// Raises the limit on the body of the request, in bytes.
    pub(super) fn up_to(mut self, bytes: usize) -> Self {
        self.handler = self.handler.layer(DefaultBodyLimit::max(bytes));
        self.max_body = bytes;
        self
    }

    /// Makes the request one that needs no token.
    pub(super) fn open(mut self) -> Self {
        self.open = true;
        self
    }

    /// Makes the request one with which people get their first credential.
    pub(super) fn front(mut self) -> Self {
        (self.open, self.is_front) = (true, true);
        self.fails(&[ErrorCode::WrongSite, ErrorCode::Slow])
    }

    /// Sets the rights that a caller needs for the request. By default only an owner of the coordinator may make it.
    pub(super) fn needs(mut self, (area, access): (Area, Access)) -> Self {
        self.need = Need { area, access, everywhere: false, by_session: false, or_own: false };
        self
    }

    /// Restricts the request to people with a session: a token cannot create tokens or take an account over.
    pub(super) fn by_session(mut self) -> Self {
        self.need.by_session = true;
        self
    }

    /// Allows the request to members of a network, too, for devices of their own.
    pub(super) fn or_own(mut self) -> Self {
        self.need.or_own = true;
        self
    }

    /// Requires a role in all networks: a role in one network is not enough.
    pub(super) fn everywhere(mut self) -> Self {
        self.need.everywhere = true;
        self
    }

    /// Adds the parameter `{…}` of the path: a name or a number.
    pub(super) fn named_by(self, parameter: &'static str, description: &str) -> Self {
        let schema = ObjectBuilder::new().schema_type(Type::String).description(Some(description));
        self.path_parameter(parameter, schema)
    }

    /// Adds the parameter `{…}` of the path: the number of a key or a token.
    pub(super) fn numbered_by(self, parameter: &'static str) -> Self {
        let schema =
            ObjectBuilder::new().schema_type(Type::Integer).format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)));
        let schema = schema.minimum(Some(i64::MIN)).maximum(Some(i64::MAX));
        self.path_parameter(parameter, schema)
    }

    fn path_parameter(mut self, name: &'static str, schema: ObjectBuilder) -> Self {
        let parameter = ParameterBuilder::new().name(name).parameter_in(ParameterIn::Path).required(Required::True);
        self.parameters.push(parameter.schema(Some(schema)).build());
        self
    }

    /// Adds the parameters of a query.
    pub(super) fn query<Q: IntoParams>(mut self) -> Self {
        self.parameters.extend(Q::into_params(|| Some(ParameterIn::Query)));
        self.fails(&[ErrorCode::BadRequest])
    }

    /// Adds the query `?network=`.
    pub(super) fn in_network(self) -> Self {
        self.query::<NetworkQuery>().fails(&[ErrorCode::NoSuchNetwork])
    }

    /// Sets the type of the body.
    pub(super) fn body<B: ToSchema>(mut self) -> Self {
        self.body = Some(self.component::<B>());
        self.fails(&[ErrorCode::BadRequest, ErrorCode::TooLarge])
    }

    /// Sets the type of an answer without failure.
    pub(super) fn answers<A: ToSchema>(mut self) -> Self {
        self.answer = self.component::<A>();
        self
    }

    /// Adds failures of this request.
    pub(super) fn fails(mut self, codes: &[ErrorCode]) -> Self {
        self.failures.extend(codes);
        self
    }

    /// Adds the schema of a type, and of the types in it, to the document. Returns a reference to it.
    fn component<T: ToSchema>(&mut self) -> RefOr<Schema> {
        T::schemas(&mut self.schemas);
        self.schemas.push((T::name().into_owned(), T::schema()));
        Ref::from_schema_name(T::name()).into()
    }
}
