using System;

namespace UnityEngine
{
    /// <summary>Three numbers.</summary>
    public struct Vector3
    {
        /// <summary>The first one.</summary>
        public float x;

        /// <summary>The second one.</summary>
        public float y;

        /// <summary>The third one.</summary>
        public float z;

        /// <summary>Three numbers.</summary>
        public Vector3(float x, float y, float z)
        {
            this.x = x;
            this.y = y;
            this.z = z;
        }

        /// <summary>Nothing.</summary>
        public static Vector3 zero => default;

        /// <summary>The axis x.</summary>
        public static Vector3 right => new Vector3(1f, 0f, 0f);

        /// <summary>The axis z.</summary>
        public static Vector3 forward => new Vector3(0f, 0f, 1f);

        /// <summary>The sum.</summary>
        public static Vector3 operator +(Vector3 a, Vector3 b)
        {
            return new Vector3(a.x + b.x, a.y + b.y, a.z + b.z);
        }

        /// <summary>The difference.</summary>
        public static Vector3 operator -(Vector3 a, Vector3 b)
        {
            return new Vector3(a.x - b.x, a.y - b.y, a.z - b.z);
        }

        /// <summary>The multiple.</summary>
        public static Vector3 operator *(Vector3 a, float d)
        {
            return new Vector3(a.x * d, a.y * d, a.z * d);
        }
    }

    /// <summary>Two numbers.</summary>
    public struct Vector2
    {
        /// <summary>The first one.</summary>
        public float x;

        /// <summary>The second one.</summary>
        public float y;
    }

    /// <summary>A rotation.</summary>
    public struct Quaternion
    {
        /// <summary>Imaginary part.</summary>
        public float x;

        /// <summary>Imaginary part.</summary>
        public float y;

        /// <summary>Imaginary part.</summary>
        public float z;

        /// <summary>Real part.</summary>
        public float w;

        /// <summary>No rotation.</summary>
        public static Quaternion identity => new Quaternion { w = 1f };

        /// <summary>A rotation by degrees about an axis of length 1.</summary>
        public static Quaternion AngleAxis(float angle, Vector3 axis)
        {
            double half = angle * Math.PI / 360.0;
            Vector3 turn = axis * (float)Math.Sin(half);
            return new Quaternion { x = turn.x, y = turn.y, z = turn.z, w = (float)Math.Cos(half) };
        }

        /// <summary>Three rotations in degrees, about z, x and y in this order.</summary>
        public static Quaternion Euler(float x, float y, float z)
        {
            return AngleAxis(y, new Vector3(0f, 1f, 0f)) * AngleAxis(x, Vector3.right) * AngleAxis(z, Vector3.forward);
        }

        /// <summary>First the right one, then the left one.</summary>
        public static Quaternion operator *(Quaternion a, Quaternion b)
        {
            return new Quaternion
            {
                x = a.w * b.x + a.x * b.w + a.y * b.z - a.z * b.y,
                y = a.w * b.y - a.x * b.z + a.y * b.w + a.z * b.x,
                z = a.w * b.z + a.x * b.y - a.y * b.x + a.z * b.w,
                w = a.w * b.w - a.x * b.x - a.y * b.y - a.z * b.z,
            };
        }
    }

    /// <summary>Numbers.</summary>
    public static class Mathf
    {
        /// <summary>The nearest number between two.</summary>
        public static float Clamp(float value, float min, float max)
        {
            return Math.Min(Math.Max(value, min), max);
        }

        /// <summary>Without its sign.</summary>
        public static float Abs(float value)
        {
            return Math.Abs(value);
        }
    }
}
