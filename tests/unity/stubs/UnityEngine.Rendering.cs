// Stand-ins for UnityEngine: cameras, lights, materials, and who listens.

namespace UnityEngine
{
    public enum CameraClearFlags
    {
        Skybox = 1,
        Color = 2,
        SolidColor = 2,
        Depth = 3,
        Nothing = 4,
    }

    public sealed class Camera : Behaviour
    {
        public Camera() { }

        public static Camera main => default;

        public CameraClearFlags clearFlags { get; set; }

        public Color backgroundColor { get; set; }

        public float fieldOfView { get; set; }

        public float nearClipPlane { get; set; }

        public float farClipPlane { get; set; }

        public bool orthographic { get; set; }

        public float orthographicSize { get; set; }

        public int cullingMask { get; set; }

        public float depth { get; set; }
    }

    public enum LightType
    {
        Spot = 0,
        Directional = 1,
        Point = 2,
    }

    public enum LightShadows
    {
        None,
        Hard,
        Soft,
    }

    public sealed class Light : Behaviour
    {
        public Light() { }

        public LightType type { get; set; }

        public Color color { get; set; }

        public float intensity { get; set; }

        public float range { get; set; }

        public LightShadows shadows { get; set; }
    }

    public sealed class RenderSettings : Object
    {
        public static Color ambientLight { get; set; }

        public static float ambientIntensity { get; set; }

        public static Rendering.AmbientMode ambientMode { get; set; }

        public static Material skybox { get; set; }
    }

    public sealed class Shader : Object
    {
        public static Shader Find(string name) => default;

        public static int PropertyToID(string name) => default;
    }

    public class Material : Object
    {
        public Material(Shader shader) { }

        public Material(Material source) { }

        public Color color { get; set; }

        public Shader shader { get; set; }

        public Texture mainTexture { get; set; }

        public bool HasProperty(string name) => default;

        public void SetColor(string name, Color value) { }

        public void SetFloat(string name, float value) { }
    }

    public class Renderer : Component
    {
        public Renderer() { }

        public bool enabled { get; set; }

        public Bounds bounds => default;

        public Material material { get; set; }

        public Material[] materials { get; set; }

        public Material sharedMaterial { get; set; }
    }

    public sealed class MeshRenderer : Renderer
    {
        public MeshRenderer() { }
    }

    public class Texture : Object
    {
    }

    public sealed class Texture2D : Texture
    {
        public Texture2D(int width, int height) { }

        public static Texture2D blackTexture => default;

        public static Texture2D whiteTexture => default;
    }

    public sealed class AudioListener : Behaviour
    {
        public AudioListener() { }

        public static float volume { get; set; }
    }
}

namespace UnityEngine.Rendering
{
    public enum AmbientMode
    {
        Skybox = 0,
        Trilight = 1,
        Flat = 3,
        Custom = 4,
    }
}
