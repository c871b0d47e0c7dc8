// Stand-ins for UnityEngine: vectors and rotations.

namespace UnityEngine
{
    public struct Vector2
    {
        public const float kEpsilon = 1E-05f;

        public float x;
        public float y;

        public Vector2(float x, float y)
        {
            this.x = x;
            this.y = y;
        }

        public static Vector2 zero => default;

        public static Vector2 one => default;

        public static Vector2 up => default;

        public static Vector2 right => default;

        public float magnitude => default;

        public float sqrMagnitude => default;

        public Vector2 normalized => default;

        public float this[int index]
        {
            get => default;
            set { }
        }

        public static implicit operator Vector2(Vector3 v) => default;

        public static implicit operator Vector3(Vector2 v) => default;

        public static Vector2 operator +(Vector2 a, Vector2 b) => default;

        public static Vector2 operator -(Vector2 a, Vector2 b) => default;

        public static Vector2 operator -(Vector2 a) => default;

        public static Vector2 operator *(Vector2 a, float d) => default;

        public static Vector2 operator *(float d, Vector2 a) => default;

        public static Vector2 operator /(Vector2 a, float d) => default;

        public static bool operator ==(Vector2 lhs, Vector2 rhs) => default;

        public static bool operator !=(Vector2 lhs, Vector2 rhs) => default;

        public static float Distance(Vector2 a, Vector2 b) => default;

        public static float Dot(Vector2 lhs, Vector2 rhs) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public override string ToString() => default;

        public string ToString(string format) => default;
    }

    public struct Vector3
    {
        public const float kEpsilon = 1E-05f;

        public float x;
        public float y;
        public float z;

        public Vector3(float x, float y, float z)
        {
            this.x = x;
            this.y = y;
            this.z = z;
        }

        public Vector3(float x, float y)
        {
            this.x = x;
            this.y = y;
            z = 0f;
        }

        public static Vector3 zero => default;

        public static Vector3 one => default;

        public static Vector3 forward => default;

        public static Vector3 back => default;

        public static Vector3 up => default;

        public static Vector3 down => default;

        public static Vector3 left => default;

        public static Vector3 right => default;

        public float magnitude => default;

        public float sqrMagnitude => default;

        public Vector3 normalized => default;

        public float this[int index]
        {
            get => default;
            set { }
        }

        public static Vector3 operator +(Vector3 a, Vector3 b) => default;

        public static Vector3 operator -(Vector3 a, Vector3 b) => default;

        public static Vector3 operator -(Vector3 a) => default;

        public static Vector3 operator *(Vector3 a, float d) => default;

        public static Vector3 operator *(float d, Vector3 a) => default;

        public static Vector3 operator /(Vector3 a, float d) => default;

        public static bool operator ==(Vector3 lhs, Vector3 rhs) => default;

        public static bool operator !=(Vector3 lhs, Vector3 rhs) => default;

        public static float Angle(Vector3 from, Vector3 to) => default;

        public static Vector3 ClampMagnitude(Vector3 vector, float maxLength) => default;

        public static Vector3 Cross(Vector3 lhs, Vector3 rhs) => default;

        public static float Distance(Vector3 a, Vector3 b) => default;

        public static float Dot(Vector3 lhs, Vector3 rhs) => default;

        public static Vector3 Lerp(Vector3 a, Vector3 b, float t) => default;

        public static Vector3 Normalize(Vector3 value) => default;

        public static Vector3 Scale(Vector3 a, Vector3 b) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public void Normalize() { }

        public override string ToString() => default;

        public string ToString(string format) => default;
    }

    public struct Quaternion
    {
        public float x;
        public float y;
        public float z;
        public float w;

        public Quaternion(float x, float y, float z, float w)
        {
            this.x = x;
            this.y = y;
            this.z = z;
            this.w = w;
        }

        public static Quaternion identity => default;

        public Vector3 eulerAngles
        {
            get => default;
            set { }
        }

        public static Quaternion operator *(Quaternion lhs, Quaternion rhs) => default;

        public static Vector3 operator *(Quaternion rotation, Vector3 point) => default;

        public static bool operator ==(Quaternion lhs, Quaternion rhs) => default;

        public static bool operator !=(Quaternion lhs, Quaternion rhs) => default;

        public static float Angle(Quaternion a, Quaternion b) => default;

        public static Quaternion AngleAxis(float angle, Vector3 axis) => default;

        public static Quaternion Euler(float x, float y, float z) => default;

        public static Quaternion Euler(Vector3 euler) => default;

        public static Quaternion Inverse(Quaternion rotation) => default;

        public static Quaternion LookRotation(Vector3 forward) => default;

        public static Quaternion LookRotation(Vector3 forward, Vector3 upwards) => default;

        public static Quaternion Slerp(Quaternion a, Quaternion b, float t) => default;

        public override bool Equals(object other) => default;

        public override int GetHashCode() => default;

        public override string ToString() => default;
    }

    public struct Matrix4x4
    {
        public static Matrix4x4 identity => default;

        public static Matrix4x4 Scale(Vector3 vector) => default;

        public static Matrix4x4 TRS(Vector3 pos, Quaternion q, Vector3 s) => default;
    }
}
