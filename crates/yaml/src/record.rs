//! The `record!` macro: one list of fields gives the struct, its reader, its merge rule and its schema, so that a new
//! field cannot be forgotten anywhere.

/// Declares a map with known keys.
///
/// `layered pub struct` is for records that several files fill together. A field's key is its name, or the literal
/// after `as`. `refuse` names keys that are not merely unknown, and says what to do instead.
#[macro_export]
macro_rules! record {
    ($(#[doc = $doc:literal])* layered pub struct $name:ident { $($body:tt)* } $(refuse { $($key:literal => $why:literal),+ $(,)? })?) => {
        $crate::record!(@build true [$($doc)*] $name { $($body)* } [$($(($key, $why)),+)?]);
    };
    ($(#[doc = $doc:literal])* pub struct $name:ident { $($body:tt)* } $(refuse { $($key:literal => $why:literal),+ $(,)? })?) => {
        $crate::record!(@build false [$($doc)*] $name { $($body)* } [$($(($key, $why)),+)?]);
    };
    (@build $layered:literal [$($doc:literal)*] $name:ident {
        $($(#[doc = $fdoc:literal])* $field:ident $(as $key:literal)? : $type:ty),* $(,)?
    } [$($refused:tt),*]) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[doc = $fdoc])* pub $field: $type,)*
        }

        impl $name {
            /// The keys of this record in a file.
            pub const KEYS: &[&'static str] = &[$($crate::record!(@key $field $($key)?)),*];
        }

        impl $crate::Shape for $name {
            fn decode(node: &$crate::Node, decoder: &mut $crate::Decoder) -> Option<Self> {
                decoder.record(node, Self::KEYS, &[$($refused),*])?;
                $(let $field = decoder.field::<$type>(node, $crate::record!(@key $field $($key)?), $layered);)*
                Some(Self { $($field: $field?),* })
            }

            fn merge(base: $crate::Node, overlay: $crate::Node) -> $crate::Node {
                $crate::by_name(base, overlay, |key, base, overlay| {
                    $(if key == $crate::record!(@key $field $($key)?) {
                        return <$type as $crate::Shape>::merge(base, overlay);
                    })*
                    $crate::replace(base, overlay)
                })
            }

            fn schema(schemas: &mut $crate::Schemas) -> $crate::macros::Json {
                schemas.define(stringify!($name), concat!($($doc),*), |schemas| {
                    vec![$($crate::schema_field::<$type>(
                        schemas, $crate::record!(@key $field $($key)?), concat!($($fdoc),*), $layered,
                    )),*]
                })
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
}
